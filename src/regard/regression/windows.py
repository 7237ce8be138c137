"""Which keys can matter to a query: a stretch of the sorted keys around it.

A compact kernel ends at one bandwidth. A Gaussian does not, but once some key has score b, the sum cannot feel keys
whose scores lie more than log(number of keys / rounding error) below b; and no key scores higher than its distance
along the sorted axis allows.
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
from regard.regression.training_set import Sample

DEPTH = 37.0
"""exp(-37) is less than the rounding error of float64."""
SLACK = 1 + 1e-12
"""Reaches are widened by more than they were rounded."""
BLOCK, SMALLEST_BLOCK = 1024, 32
"""Queries read together."""
WORTH_THREADS = 2**20
"""Pairs from which starting threads pays."""
SHORT = 512
"""Keys in a window short enough to be gathered by many queries at once, each its own."""


@dataclass(frozen=True)
class Block:
    """Queries `rows` read the keys in `part`, or, if there is much in it that most do not need, each its own window."""

    rows: slice
    part: slice
    gathers: bool


@dataclass(frozen=True)
class Windows:
    """Keys [low, high) matter to each query, but for key `hidden`: one that asks about itself must not find itself.

    Key `nearest` is one of them, not always the very nearest, and its Gaussian score is `best`.
    """

    queries: Float[Tensor, "Q size"]
    hidden: Int[Tensor, " Q"] | None
    low: Int[Tensor, " Q"]
    high: Int[Tensor, " Q"]
    nearest: Int[Tensor, " Q"]
    best: Float[Tensor, " Q"]

    def __getitem__(self, rows: slice) -> "Windows":
        hidden = None if self.hidden is None else self.hidden[rows]
        parts = (self.low, self.high, self.nearest, self.best)
        return Windows(self.queries[rows], hidden, *(part[rows] for part in parts))

    def blocks(self) -> Iterator[Block]:
        """All queries, those together whose windows overlap, and as much for one thread as for another."""
        pairs = (self.high.numpy() - self.low.numpy()).sum()
        num_threads = torch.get_num_threads() if pairs >= WORTH_THREADS else 1
        num_blocks = num_threads * math.ceil(len(self.queries) / BLOCK / num_threads)
        for start, stop in pairwise(round(index * len(self.queries) / num_blocks) for index in range(num_blocks + 1)):
            if start < stop:
                yield from self.split(start, stop)

    def split(self, start: int, stop: int) -> Iterator[Block]:
        """The queries from start to stop in one block or several."""
        low, high = self.low[start:stop].numpy(), self.high[start:stop].numpy()
        part, longest = slice(int(low.min()), int(high.max())), int((high - low).max())
        shared, last = part.stop - part.start, stop - start <= SMALLEST_BLOCK
        # a key of one's own costs as much as several shared ones, the more the more numbers it has
        gathers = longest * (6 + 2 * self.queries.shape[1]) < shared and (last or longest <= SHORT)
        if gathers or last or shared <= 2 * (high - low).mean():
            yield Block(slice(start, stop), part, gathers)
            return
        middle = (start + stop) // 2
        yield from self.split(start, middle)
        yield from self.split(middle, stop)

    def hide(self, scores: Float[Tensor, "Q K"], tile: slice, nothing: float) -> None:
        """Write `nothing` over the scores of hidden keys, where a tile of keys holds them."""
        if self.hidden is not None:
            rows = ((self.hidden >= tile.start) & (self.hidden < tile.stop)).nonzero().squeeze(1)
            scores[rows, self.hidden[rows] - tile.start] = nothing


def windows(
    queries: Float[Tensor, "Q size"], sample: Sample, kernel: Kernel | None, hidden: Int[Tensor, " Q"] | None = None
) -> Windows:
    """The keys that a kernel lets each query feel; without a kernel, those among which its nearest must be."""
    keys, asked, log_weights = sample.keys.numpy(), queries.numpy(), sample.log_weights.numpy()
    line, places = np.ascontiguousarray(keys[:, sample.axis]), np.ascontiguousarray(asked[:, sample.axis])
    before, after = beside(line, places, None if hidden is None else hidden.numpy())
    scores = [-np.square(asked - keys[index]).sum(axis=1) / 2 for index in (before, after)]
    if kernel is not None:
        scores = [score + log_weights[index] for score, index in zip(scores, (before, after), strict=True)]
    best, nearest = np.maximum(*scores), np.where(scores[0] >= scores[1], before, after)
    if kernel is None:
        reach = np.sqrt(-2 * best)
    elif kernel.compact:
        reach = np.full_like(best, 1 + 2 * ROUNDING)
    else:
        reach = np.sqrt(2 * (DEPTH + math.log(len(line)) - best))
    low, high = line.searchsorted(places - reach * SLACK), line.searchsorted(places + reach * SLACK, side="right")
    return Windows(queries, hidden, *(torch.from_numpy(part) for part in (low, high, nearest, best)))


def beside(
    line: Float[np.ndarray, " K"], places: Float[np.ndarray, " Q"], hidden: Int[np.ndarray, " Q"] | None
) -> tuple[Int[np.ndarray, " Q"], Int[np.ndarray, " Q"]]:
    """The keys before and after each place along the sorted axis; at an end, the last one twice."""
    last = len(line) - 1
    if hidden is None:
        after = line.searchsorted(places)
        return np.maximum(after - 1, 0), np.minimum(after, last)
    return np.where(hidden > 0, hidden - 1, 1), np.where(hidden < last, hidden + 1, last - 1)
