"""Fused Gaussian attention for narrow values, tile by tile: linear memory, rounding error only.

Scores are one matrix product per tile, [q, 1, -b] . [k, log w - 1/2 |k|^2, 1], with powers of 2 instead of e, and a
second product adds up values and weights at once. The softmax must subtract something near the highest score: where the
score b of some key is surely near enough, it stands in, and the running maximum, a fifth of the work, is left out.
"""

import math

import torch
from jaxtyping import Float
from torch import Tensor

from regard.regression.sample import Sample
from regard.regression.windows import Windows

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
