"""Kernel-weighted means over the training set in linear memory, exact up to rounding.

    f(x) = sum_i w_i K(|x - x_i|) y_i / sum_i w_i K(|x - x_i|)

Queries are processed in blocks, in threads, and each block uses the window of keys that can matter to it:

- Gaussian: the scores of a tile of keys are one matrix product, [q, 1, -b] . [k, log w - 1/2 |k|^2, 1], with powers of
  2 instead of e; a second product adds up values and weights at once. The softmax must subtract a number near the
  highest score. Where the score b of one key is near enough, it is subtracted, which saves the running maximum, a fifth
  of the work.
- Compact kernels: distances by differences, tile by tile.
- Where few keys matter to each query, and not the same ones, each query gathers its own window.
"""

import math
from collections.abc import Callable, Iterable
from concurrent.futures import ThreadPoolExecutor
from typing import TypeVar

import torch
from jaxtyping import Bool, Float, Int
from torch import Tensor

from regard.regression.kernels import Kernel
from regard.regression.training_set import TrainingSet
from regard.regression.windows import WindowBlock, Windows, find_windows

Part = TypeVar("Part")
TILE = 1024
"""Keys at a time, so that their scores stay in the cache."""
LOG2_E = math.log2(math.e)
SCORE_ERROR = {torch.float32: 1e-5, torch.float64: 1e-8}
"""Rounding error of a score from which a wider dtype or a nearer centre is used."""
HEADROOM = {torch.float32: 70.0, torch.float64: 690.0}
"""How far a score may exceed the number that is subtracted before its exponential, or a sum of them, overflows."""


def run_in_threads(function: Callable[[Part], None], parts: Iterable[Part]) -> None:
    """Call the function for every part, in as many threads as torch uses; parts must not write the same memory.

    A sum consists of many short operations. If each ran in all threads, each would wait for the slowest thread; one
    thread per part waits once.
    """
    parts, num_threads = list(parts), torch.get_num_threads()
    if len(parts) < 2 or num_threads < 2:
        for part in parts:
            function(part)
        return
    try:
        # torch's number of threads is set per thread, and is the default of threads that start later
        pool_size = min(num_threads, len(parts))
        with ThreadPoolExecutor(pool_size, initializer=torch.set_num_threads, initargs=(1,)) as pool:
            # the results are None, but iterating raises the first error of a thread
            for _ in pool.map(function, parts):
                pass
    finally:
        torch.set_num_threads(num_threads)


def gathered_totals(windows: Windows, training_set: TrainingSet, kernel: Kernel | None) -> Float[Tensor, "Q rows"]:
    """Sums of weighted values and of weights, up to a factor per query; without a kernel, over the nearest keys."""
    # (Q, longest window): shorter windows are masked by `inside`, and indices past the last key are clamped
    indices = windows.low[:, None] + torch.arange(max(int((windows.high - windows.low).max()), 1))
    inside, indices = indices < windows.high[:, None], indices.clamp(max=len(training_set.keys) - 1)
    if windows.excluded is not None:
        inside &= indices != windows.excluded[:, None]
    is_gaussian = kernel is not None and not kernel.compact
    weights = (gaussian_weights if is_gaussian else distance_weights)(windows, training_set, kernel, indices, inside)
    # one output at a time: the gathered values of all of them would be (rows, Q, K)
    return torch.stack([(weights * row[indices]).sum(dim=-1) for row in training_set.values], dim=-1)


def gaussian_weights(
    windows: Windows,
    training_set: TrainingSet,
    kernel: Kernel | None,
    indices: Int[Tensor, "Q K"],
    inside: Bool[Tensor, "Q K"],
) -> Float[Tensor, "Q K"]:
    """exp(score - highest score), relative to a near key: |k|^2 would cancel the differences, see `gaussian_totals`."""
    centre = training_set.keys[windows.nearest]
    keys = training_set.keys[indices] - centre[:, None]
    scores = torch.einsum("qkd,qd->qk", keys, windows.queries - centre) - keys.square().sum(dim=-1) / 2
    scores = (scores + training_set.log_weights[indices]).masked_fill(~inside, -math.inf)
    return (scores - scores.amax(dim=-1, keepdim=True)).exp()


def distance_weights(
    windows: Windows,
    training_set: TrainingSet,
    kernel: Kernel | None,
    indices: Int[Tensor, "Q K"],
    inside: Bool[Tensor, "Q K"],
) -> Float[Tensor, "Q K"]:
    """The kernel of the distance, times the sample weight; without a kernel, 1 for the nearest keys."""
    distances = (windows.queries[:, None] - training_set.keys[indices]).norm(dim=-1).masked_fill(~inside, math.inf)
    if kernel is None:
        weights = (distances == distances.amin(dim=-1, keepdim=True)).to(distances.dtype)
    else:
        weights = kernel.profile(distances)
    return weights * training_set.log_weights[indices].exp()


def gaussian_totals(
    windows: Windows, training_set: TrainingSet, part: slice, dtype: torch.dtype
) -> Float[Tensor, "Q rows"]:
    """Sums of weighted values and of weights, up to a factor per query, in a dtype whose scores are exact enough."""
    corners = training_set.corners.clone()
    corners[:, training_set.axis] = training_set.keys[[part.start, part.stop - 1], training_set.axis]
    # clamped to the keys: relative to a centre far from all of them, |k|^2 would cancel the differences between keys
    centre = windows.queries.mean(dim=0).clamp(*corners)
    farthest_key = min((corners - centre).abs().amax(dim=0).norm(), training_set.radius + centre.norm())
    # the largest term of a score, q . k, sets its rounding error
    largest = float((windows.queries - centre).norm(dim=-1).max() * farthest_key)
    if largest * torch.finfo(dtype).eps / 2 > SCORE_ERROR[dtype]:
        if dtype != torch.float64:
            return gaussian_totals(windows, training_set, part, torch.float64)
        if len(windows.queries) > 1:
            # half of the queries has a centre that is nearer to each of them
            middle = len(windows.queries) // 2
            halves = windows[slice(middle)], windows[slice(middle, None)]
            return torch.cat([gaussian_totals(half, training_set, part, dtype) for half in halves])
    return sum_tiles(windows, training_set, part, centre, dtype)


def sum_tiles(
    windows: Windows, training_set: TrainingSet, part: slice, centre: Float[Tensor, " size"], dtype: torch.dtype
) -> Float[Tensor, "Q rows"]:
    """The sums of `gaussian_totals`, with queries and keys relative to the centre."""
    queries, peaks = windows.queries - centre, None
    # added to -1/2 |q|^2, which the scores lack, so that the best key has exponent 0
    offset = windows.best + queries.square().sum(dim=-1) / 2
    if float(windows.best.min()) < -HEADROOM[dtype]:
        # the near key is too far below the best one: keep a running maximum instead
        peaks, offset = torch.full_like(offset, -math.inf), torch.zeros_like(offset)
    features = torch.cat([queries, torch.ones_like(queries[:, :1]), -offset[:, None]], dim=-1)
    features = (features * LOG2_E).to(dtype)
    # float64 totals, whatever the dtype of the scores
    totals = queries.new_zeros(len(training_set.values), len(queries))
    # buffers shared by all tiles, which therefore stay in the cache
    columns, buffer = torch.ones(TILE, features.shape[1], dtype=dtype), torch.empty(len(queries) * TILE, dtype=dtype)
    for tile in tiles(part):
        keys = training_set.keys[tile] - centre
        num_keys = len(keys)
        columns[:num_keys, :-2] = keys
        columns[:num_keys, -2] = training_set.log_weights[tile] - torch.linalg.vecdot(keys, keys) / 2
        out = buffer[: len(queries) * num_keys].view(len(queries), num_keys)
        scores = torch.mm(features, columns[:num_keys].T, out=out)
        windows.fill_excluded(scores, tile, -math.inf)
        if peaks is not None:
            # clamped, because a first tile may hold only an excluded key, and -inf - (-inf) is NaN
            new_peaks = torch.maximum(peaks, scores.amax(dim=-1)).clamp(min=torch.finfo(dtype).min)
            totals *= torch.exp2(peaks - new_peaks)
            scores -= new_peaks.to(dtype)[:, None]
            peaks = new_peaks
        # the narrow matrix on the left: BLAS is faster there
        totals += training_set.values[:, tile].to(dtype) @ torch.exp2(scores, out=scores).T
    return totals.T


def tiles(part: slice) -> list[slice]:
    """The keys of a window in slices of TILE."""
    return [slice(start, min(start + TILE, part.stop)) for start in range(part.start, part.stop, TILE)]


def predict_exact(
    queries: Float[Tensor, "Q size"],
    training_set: TrainingSet,
    kernel: Kernel,
    *,
    excluded: Int[Tensor, " Q"] | None = None,
    dtype: torch.dtype = torch.float64,
) -> Float[Tensor, "Q value"]:
    """The kernel-weighted mean of the values at each query; where no key is within reach, that of the nearest keys.

    `excluded` is one key per query that must not predict it; there must be another key.
    """
    # sorted queries have overlapping windows
    order = torch.from_numpy(queries[:, training_set.axis].numpy().argsort())
    windows = find_windows(queries[order], training_set, kernel, None if excluded is None else excluded[order])
    totals = queries.new_zeros(len(queries), len(training_set.values))

    def sum_block(block: WindowBlock) -> None:
        part = windows[block.rows]
        if block.gathers:
            totals[block.rows] = gathered_totals(part, training_set, kernel)
        elif kernel.compact:
            totals[block.rows] = compact_totals(part, training_set, block.part, kernel)
        else:
            totals[block.rows] = gaussian_totals(part, training_set, block.part, dtype)

    run_in_threads(sum_block, windows.blocks())
    # the last column is the sum of the weights; it is 0 where no key is within reach
    empty = (totals[:, -1] == 0).nonzero().squeeze(1)
    if len(empty):
        empty_excluded = None if windows.excluded is None else windows.excluded[empty]
        nearest = find_windows(windows.queries[empty], training_set, None, empty_excluded)
        totals[empty] = nearest_totals(nearest, training_set)
    context = torch.empty_like(totals[:, :-1])
    context[order] = totals[:, :-1] / totals[:, -1:]
    return context


def compact_totals(windows: Windows, training_set: TrainingSet, part: slice, kernel: Kernel) -> Float[Tensor, "Q rows"]:
    """Sums of weighted values and of weights."""
    totals = windows.queries.new_zeros(len(windows.queries), len(training_set.values))
    for tile in tiles(part):
        values = training_set.values[:, tile] * training_set.log_weights[tile].exp()
        totals += kernel.profile(tile_distances(windows, training_set, tile)) @ values.T
    return totals


def nearest_totals(windows: Windows, training_set: TrainingSet) -> Float[Tensor, "Q rows"]:
    """Sums over the nearest keys: one, or several at the same distance."""
    totals = windows.queries.new_zeros(len(windows.queries), len(training_set.values))
    for block in windows.blocks():
        part = windows[block.rows]
        if block.gathers:
            totals[block.rows] = gathered_totals(part, training_set, kernel=None)
            continue
        nearest = torch.full_like(part.queries[:, :1], math.inf)
        for tile in tiles(block.part):
            distances = tile_distances(part, training_set, tile)
            new_nearest = torch.minimum(nearest, distances.amin(dim=-1, keepdim=True))
            values = training_set.values[:, tile] * training_set.log_weights[tile].exp()
            # a nearer key discards the sum so far
            totals[block.rows] *= new_nearest == nearest
            is_nearest = (distances == new_nearest) & distances.isfinite()
            totals[block.rows] += is_nearest.to(values.dtype) @ values.T
            nearest = new_nearest
    return totals


def tile_distances(windows: Windows, training_set: TrainingSet, tile: slice) -> Float[Tensor, "Q K"]:
    """|q - k| by differences: a cancelled square must not decide whether a key is within one bandwidth."""
    keys = training_set.keys[tile]
    distances = torch.cdist(windows.queries, keys, compute_mode="donot_use_mm_for_euclid_dist")
    windows.fill_excluded(distances, tile, math.inf)
    return distances
