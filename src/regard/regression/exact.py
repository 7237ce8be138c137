"""Exact kernel sums in linear memory: fused, gathered and threaded.

Independent work in as many threads as torch would use, each torch operation in one.

Long sums are many short operations. Run one after the other, each in all threads, they wait for the slowest thread
after every one: on a busy machine most of the time. A thread of its own for every part waits once.

Few keys matter to each query, and not the same ones: each gathers its own window.

Fused Gaussian attention for narrow values, tile by tile: linear memory, rounding error only.

Scores are one matrix product per tile, [q, 1, -b] . [k, log w - 1/2 |k|^2, 1], with powers of 2 instead of e, and a
second product adds up values and weights at once. The softmax must subtract something near the highest score: where the
score b of some key is surely near enough, it stands in, and the running maximum, a fifth of the work, is left out.

Every query reads every key that can matter to it: linear memory, rounding error only.
"""

import math
from collections.abc import Callable, Iterable
from concurrent.futures import ThreadPoolExecutor
from typing import TypeVar

import torch
from jaxtyping import Bool, Float, Int
from torch import Tensor

from regard.regression.kernels import Kernel
from regard.regression.training_set import Sample
from regard.regression.windows import Block, Windows, windows

Part = TypeVar("Part")


def in_threads(work: Callable[[Part], None], parts: Iterable[Part]) -> None:
    """Do the work for every part; it must not touch what another part's work writes."""
    parts, num = list(parts), torch.get_num_threads()
    if len(parts) < 2 or num < 2:
        for part in parts:
            work(part)
        return
    try:
        # the number of threads is each thread's own, and what threads that start later begin with
        with ThreadPoolExecutor(min(num, len(parts)), initializer=torch.set_num_threads, initargs=(1,)) as pool:
            for _ in pool.map(work, parts):
                pass
    finally:
        torch.set_num_threads(num)


def gathered_totals(near: Windows, sample: Sample, kernel: Kernel | None) -> Float[Tensor, "Q rows"]:
    """Sums of weighted values and of weights, up to a factor per query; without a kernel, over the nearest keys."""
    indices = near.low[:, None] + torch.arange(max(int((near.high - near.low).max()), 1))
    inside, indices = indices < near.high[:, None], indices.clamp(max=len(sample.keys) - 1)
    if near.hidden is not None:
        inside &= indices != near.hidden[:, None]
    gaussian = kernel is not None and not kernel.compact
    weights = (gaussian_weights if gaussian else distance_weights)(near, sample, kernel, indices, inside)
    return torch.stack([(weights * row[indices]).sum(dim=-1) for row in sample.values], dim=-1)


def gaussian_weights(
    near: Windows, sample: Sample, kernel: Kernel | None, indices: Int[Tensor, "Q K"], inside: Bool[Tensor, "Q K"]
) -> Float[Tensor, "Q K"]:
    """exp(score - highest score), counted from a near key, not from the query: see `fused.gaussian_totals`."""
    centre = sample.keys[near.nearest]
    keys = sample.keys[indices] - centre[:, None]
    scores = torch.einsum("qkd,qd->qk", keys, near.queries - centre) - keys.square().sum(dim=-1) / 2
    scores = (scores + sample.log_weights[indices]).masked_fill(~inside, -math.inf)
    return (scores - scores.amax(dim=-1, keepdim=True)).exp()


def distance_weights(
    near: Windows, sample: Sample, kernel: Kernel | None, indices: Int[Tensor, "Q K"], inside: Bool[Tensor, "Q K"]
) -> Float[Tensor, "Q K"]:
    """The kernel of the distance, times the sample weight."""
    distances = (near.queries[:, None] - sample.keys[indices]).norm(dim=-1).masked_fill(~inside, math.inf)
    if kernel is None:
        weights = (distances == distances.amin(dim=-1, keepdim=True)).to(distances.dtype)
    else:
        weights = kernel.profile(distances)
    return weights * sample.log_weights[indices].exp()


TILE = 1024
"""Keys at a time, so that their scores stay in the cache."""
LOG2_E = math.log2(math.e)
SCORE_ERROR = {torch.float32: 1e-5, torch.float64: 1e-8}
"""Rounding that a score may suffer before a wider dtype, or a nearer place to count from, is taken."""
HEADROOM = {torch.float32: 70.0, torch.float64: 690.0}
"""How far above the stand-in a score may lie without overflow of its exponential, and of a sum of them."""


def gaussian_totals(near: Windows, sample: Sample, part: slice, dtype: torch.dtype) -> Float[Tensor, "Q rows"]:
    """Sums of weighted values and of weights, up to a factor per query, in a dtype in which scores are exact enough."""
    corners = sample.corners.clone()
    corners[:, sample.axis] = sample.keys[[part.start, part.stop - 1], sample.axis]
    # a query far from all keys is no place to count from: |k|^2 would drown the differences between keys
    centre = near.queries.mean(dim=0).clamp(*corners)
    farthest_key = min((corners - centre).abs().amax(dim=0).norm(), sample.radius + centre.norm())
    size = float((near.queries - centre).norm(dim=-1).max() * farthest_key)
    if size * torch.finfo(dtype).eps / 2 > SCORE_ERROR[dtype]:
        if dtype != torch.float64:
            return gaussian_totals(near, sample, part, torch.float64)
        if len(near.queries) > 1:
            middle = len(near.queries) // 2
            halves = near[slice(middle)], near[slice(middle, None)]
            return torch.cat([gaussian_totals(half, sample, part, dtype) for half in halves])
    return read_tiles(near, sample, part, centre, dtype)


def read_tiles(
    near: Windows, sample: Sample, part: slice, centre: Float[Tensor, " size"], dtype: torch.dtype
) -> Float[Tensor, "Q rows"]:
    """Those sums, everything counted from the centre."""
    queries, peaks = near.queries - centre, None
    stand_in = near.best + queries.square().sum(dim=-1) / 2
    if float(near.best.min()) < -HEADROOM[dtype]:
        peaks, stand_in = torch.full_like(stand_in, -math.inf), torch.zeros_like(stand_in)
    features = torch.cat([queries, torch.ones_like(queries[:, :1]), -stand_in[:, None]], dim=-1)
    features = (features * LOG2_E).to(dtype)
    totals = queries.new_zeros(len(sample.values), len(queries))
    columns, room = torch.ones(TILE, features.shape[1], dtype=dtype), torch.empty(len(queries) * TILE, dtype=dtype)
    for tile in tiles(part):
        keys = sample.keys[tile] - centre
        num = len(keys)
        columns[:num, :-2] = keys
        columns[:num, -2] = sample.log_weights[tile] - torch.linalg.vecdot(keys, keys) / 2
        scores = torch.mm(features, columns[:num].T, out=room[: len(queries) * num].view(len(queries), num))
        near.hide(scores, tile, -math.inf)
        if peaks is not None:
            # a first tile may hold nothing but a hidden key
            risen = torch.maximum(peaks, scores.amax(dim=-1)).clamp(min=torch.finfo(dtype).min)
            totals *= torch.exp2(peaks - risen)
            scores -= risen.to(dtype)[:, None]
            peaks = risen
        # a narrow matrix is better on the left
        totals += sample.values[:, tile].to(dtype) @ torch.exp2(scores, out=scores).T
    return totals.T


def tiles(part: slice) -> list[slice]:
    """The keys of a window, a tile at a time."""
    return [slice(start, min(start + TILE, part.stop)) for start in range(part.start, part.stop, TILE)]


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
