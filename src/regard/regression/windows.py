"""The window of sorted keys that can matter to each query.

    |x - x_i| <= 1                                              compact kernels
    1/2 |x - x_i|^2 <= DEPTH + log K - b                        Gaussian, b the score of some key near x

A compact kernel is 0 from one bandwidth on. A Gaussian is not, but keys whose score lies DEPTH + log K below another
key's change the sum by less than its rounding error. The distance along the sorted axis bounds a key's score.
"""

import math
from collections.abc import Iterator
from dataclasses import dataclass
from itertools import pairwise

import numpy as np
import torch
from jaxtyping import Float, Int
from torch import Tensor

from regard.regression.kernels import ROUNDING, Kernel
from regard.regression.training_set import TrainingSet

DEPTH = 37.0
"""exp(-37) is less than the rounding error of float64."""
SLACK = 1 + 1e-12
"""Factor on the reach of a window, larger than its rounding error."""
BLOCK, SMALLEST_BLOCK = 1024, 32
"""Queries per block."""
WORTH_THREADS = 2**20
"""Query-key pairs from which starting threads pays off."""
SHORT = 512
"""Keys of a window that is short enough for a block of queries to gather its windows one by one."""


@dataclass(frozen=True)
class WindowBlock:
    """Queries `rows` and the keys in `part`, the union of their windows.

    With `gathers` each query gathers its own window, because most of the union does not matter to it.
    """

    rows: slice
    part: slice
    gathers: bool


@dataclass(frozen=True)
class Windows:
    """Keys [low, high) matter to each query, except key `excluded`: a training row that must not predict itself.

    Key `nearest` is one of them, near but not always the very nearest, and `best` is its Gaussian score.
    """

    queries: Float[Tensor, "Q size"]
    excluded: Int[Tensor, " Q"] | None
    low: Int[Tensor, " Q"]
    high: Int[Tensor, " Q"]
    nearest: Int[Tensor, " Q"]
    best: Float[Tensor, " Q"]

    def __getitem__(self, rows: slice) -> "Windows":
        excluded = None if self.excluded is None else self.excluded[rows]
        parts = (self.low, self.high, self.nearest, self.best)
        return Windows(self.queries[rows], excluded, *(part[rows] for part in parts))

    def blocks(self) -> Iterator[WindowBlock]:
        """All queries in blocks with overlapping windows, an equal number of blocks for each thread."""
        num_pairs = (self.high.numpy() - self.low.numpy()).sum()
        num_threads = torch.get_num_threads() if num_pairs >= WORTH_THREADS else 1
        # a multiple of the threads, so that all of them end at about the same time
        num_blocks = num_threads * math.ceil(len(self.queries) / BLOCK / num_threads)
        for start, stop in pairwise(round(index * len(self.queries) / num_blocks) for index in range(num_blocks + 1)):
            if start < stop:
                yield from self.split(start, stop)

    def split(self, start: int, stop: int) -> Iterator[WindowBlock]:
        """The queries from start to stop in one block or several."""
        low, high = self.low[start:stop].numpy(), self.high[start:stop].numpy()
        part, longest = slice(int(low.min()), int(high.max())), int((high - low).max())
        num_shared, is_smallest = part.stop - part.start, stop - start <= SMALLEST_BLOCK
        # gathering a key costs as much as 6 + 2 size keys that the block shares in one product
        gathers = longest * (6 + 2 * self.queries.shape[1]) < num_shared and (is_smallest or longest <= SHORT)
        if gathers or is_smallest or num_shared <= 2 * (high - low).mean():
            yield WindowBlock(slice(start, stop), part, gathers)
            return
        # the union is more than twice the mean window: halves have smaller unions
        middle = (start + stop) // 2
        yield from self.split(start, middle)
        yield from self.split(middle, stop)

    def fill_excluded(self, scores: Float[Tensor, "Q K"], tile: slice, value: float) -> None:
        """Overwrite the scores of excluded keys that lie in a tile of keys."""
        if self.excluded is not None:
            rows = ((self.excluded >= tile.start) & (self.excluded < tile.stop)).nonzero().squeeze(1)
            scores[rows, self.excluded[rows] - tile.start] = value


def find_windows(
    queries: Float[Tensor, "Q size"],
    training_set: TrainingSet,
    kernel: Kernel | None,
    excluded: Int[Tensor, " Q"] | None = None,
) -> Windows:
    """The keys on which a kernel has weight at each query; without a kernel, those that include the nearest."""
    keys, points, log_weights = training_set.keys.numpy(), queries.numpy(), training_set.log_weights.numpy()
    line = np.ascontiguousarray(keys[:, training_set.axis])
    positions = np.ascontiguousarray(points[:, training_set.axis])
    before, after = find_neighbours(line, positions, None if excluded is None else excluded.numpy())
    scores = [-np.square(points - keys[index]).sum(axis=1) / 2 for index in (before, after)]
    if kernel is not None:
        scores = [score + log_weights[index] for score, index in zip(scores, (before, after), strict=True)]
    # the two neighbours along the axis are only likely to be near: any key would give a valid bound
    best, nearest = np.maximum(*scores), np.where(scores[0] >= scores[1], before, after)
    if kernel is None:
        # -1/2 d^2 = best: no key farther than this along the axis can be nearer
        reach = np.sqrt(-2 * best)
    elif kernel.compact:
        reach = np.full_like(best, 1 + 2 * ROUNDING)
    else:
        reach = np.sqrt(2 * (DEPTH + math.log(len(line)) - best))
    low = line.searchsorted(positions - reach * SLACK)
    high = line.searchsorted(positions + reach * SLACK, side="right")
    return Windows(queries, excluded, *(torch.from_numpy(part) for part in (low, high, nearest, best)))


def find_neighbours(
    line: Float[np.ndarray, " K"], positions: Float[np.ndarray, " Q"], excluded: Int[np.ndarray, " Q"] | None
) -> tuple[Int[np.ndarray, " Q"], Int[np.ndarray, " Q"]]:
    """The keys before and after each position along the sorted axis; at an end, the last key twice."""
    last = len(line) - 1
    if excluded is None:
        after = line.searchsorted(positions)
        return np.maximum(after - 1, 0), np.minimum(after, last)
    # each query is a key itself: its neighbours are those beside the excluded key
    return np.where(excluded > 0, excluded - 1, 1), np.where(excluded < last, excluded + 1, last - 1)
