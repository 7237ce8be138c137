"""Every query reads every key that can matter to it: linear memory, rounding error only."""

import math

import torch
from jaxtyping import Float, Int
from torch import Tensor

from regard.regression.fused import gaussian_totals, tiles
from regard.regression.gathered import gathered_totals
from regard.regression.kernels import Kernel
from regard.regression.sample import Sample
from regard.regression.threads import in_threads
from regard.regression.windows import Block, Windows, windows


def read_exact(
    queries: Float[Tensor, "Q size"],
    sample: Sample,
    kernel: Kernel,
    *,
    hidden: Int[Tensor, " Q"] | None = None,
    dtype: torch.dtype = torch.float64,
) -> Float[Tensor, "Q value"]:
    """The kernel-weighted mean of the values at each query; where no key is within reach, that of the nearest keys.

    `hidden` is a key that each query may not read; there must be another.
    """
    order = torch.from_numpy(queries[:, sample.axis].numpy().argsort())
    near = windows(queries[order], sample, kernel, None if hidden is None else hidden[order])
    totals = queries.new_zeros(len(queries), len(sample.values))

    def read(block: Block) -> None:
        asked = near[block.rows]
        if block.gathers:
            totals[block.rows] = gathered_totals(asked, sample, kernel)
        elif kernel.compact:
            totals[block.rows] = compact_totals(asked, sample, block.part, kernel)
        else:
            totals[block.rows] = gaussian_totals(asked, sample, block.part, dtype)

    in_threads(read, near.blocks())
    alone = (totals[:, -1] == 0).nonzero().squeeze(1)
    if len(alone):
        totals[alone] = nearest_totals(
            windows(near.queries[alone], sample, None, None if near.hidden is None else near.hidden[alone]), sample
        )
    context = torch.empty_like(totals[:, :-1])
    context[order] = totals[:, :-1] / totals[:, -1:]
    return context


def compact_totals(near: Windows, sample: Sample, part: slice, kernel: Kernel) -> Float[Tensor, "Q rows"]:
    """Sums of weighted values and of weights."""
    totals = near.queries.new_zeros(len(near.queries), len(sample.values))
    for tile in tiles(part):
        values = sample.values[:, tile] * sample.log_weights[tile].exp()
        totals += kernel.profile(distances(near, sample, tile)) @ values.T
    return totals


def nearest_totals(near: Windows, sample: Sample) -> Float[Tensor, "Q rows"]:
    """Sums over the nearest keys: one, or several at the same distance."""
    totals = near.queries.new_zeros(len(near.queries), len(sample.values))
    for block in near.blocks():
        asked = near[block.rows]
        if block.gathers:
            totals[block.rows] = gathered_totals(asked, sample, kernel=None)
            continue
        nearest = torch.full_like(asked.queries[:, :1], math.inf)
        for tile in tiles(block.part):
            apart = distances(asked, sample, tile)
            closest = torch.minimum(nearest, apart.amin(dim=-1, keepdim=True))
            values = sample.values[:, tile] * sample.log_weights[tile].exp()
            totals[block.rows] *= closest == nearest
            totals[block.rows] += ((apart == closest) & apart.isfinite()).to(values.dtype) @ values.T
            nearest = closest
    return totals


def distances(near: Windows, sample: Sample, tile: slice) -> Float[Tensor, "Q K"]:
    """|q - k| by differences: whether a key is inside one bandwidth must not hang on a cancelled square."""
    apart = torch.cdist(near.queries, sample.keys[tile], compute_mode="donot_use_mm_for_euclid_dist")
    near.hide(apart, tile, math.inf)
    return apart
