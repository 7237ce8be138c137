"""A stream cut into segments to learn from: rows that go on from step to step, or crops out of anywhere.

    stream   N tokens are laid in `rows` of N / rows; step k reads places k length .. (k + 1) length of every row
    crops    every step reads `rows` pieces that begin anywhere; an epoch has as many steps as the stream would fill

What is left over at the ends of rows, less than a segment each, is not learned from. A text too short for so many rows
or so long a segment gets fewer and shorter ones.
"""

from collections.abc import Sequence
from dataclasses import dataclass, field
from functools import cached_property
from typing import Literal, get_args

import numpy as np
import torch
from jaxtyping import Int

from regard._utils import check_name
from regard.contracts import EOS, Segment
from regard.data.batching.order import share
from regard.data.text.streams import Stream

Cut = Literal["stream", "crops"]


@dataclass(frozen=True, kw_only=True)
class SegmentSettings:
    """How much is learned from at once: `rows` side by side, `length` tokens each, cut as a stream or as crops."""

    rows: int = 20
    length: int = 35
    cut: Cut = "stream"
    seed: int = 0

    def __post_init__(self) -> None:
        check_name(self.cut, get_args(Cut), "way to cut a text")
        for name, count in (("rows", self.rows), ("length", self.length)):
            if count < 1:
                raise ValueError(f"batch.{name} is {count}, expected 1 or more.")
        if self.seed < 0:
            raise ValueError(f"the seed is {self.seed}. Give 0 or more.")


@dataclass(frozen=True)
class SegmentOrder:
    """Which places of a stream begin the segments of which step."""

    num_tokens: int
    settings: SegmentSettings

    @property
    def length(self) -> int:
        """Tokens of a segment."""
        return min(self.settings.length, self.num_tokens)

    @property
    def rows(self) -> int:
        """Segments a step."""
        return max(min(self.settings.rows, self.num_tokens // self.length), 1)

    @property
    def row_length(self) -> int:
        """Places from the beginning of one row to that of the next."""
        return self.num_tokens // self.rows

    def epoch(self, number: int) -> list[list[int]]:
        """Where the segments of every step begin."""
        if self.settings.cut == "stream":
            starts = np.arange(self.rows) * self.row_length
            steps = self.row_length // self.length
            return (starts + self.length * np.arange(steps)[:, None]).tolist()
        steps = max(self.num_tokens // (self.rows * self.length), 1)
        draws = np.random.PCG64(np.random.SeedSequence([self.settings.seed, number])).random_raw((steps, self.rows))
        return (draws % np.uint64(self.num_tokens - self.length + 1)).astype(np.int64).tolist()

    def is_fresh(self, start: int) -> bool:
        """Whether a segment that begins here goes on from nothing."""
        return self.settings.cut == "crops" or (start % self.row_length) == 0


@dataclass(frozen=True, eq=False)
class SegmentData:
    """A stream as training wants it; batches are named by the places where their segments begin."""

    stream: Stream
    settings: SegmentSettings = field(default_factory=SegmentSettings)

    @cached_property
    def order(self) -> SegmentOrder:
        """Which segments make which step."""
        return SegmentOrder(len(self.stream), self.settings)

    @cached_property
    def _with_start(self) -> Int[np.ndarray, " N_and_one"]:
        return np.concatenate([[EOS], self.stream.ids]).astype(np.int64)

    def share(self, indices: Sequence[int], part: int, of: int) -> Sequence[int]:
        """Every `of`-th row."""
        return share(indices, part, of)

    def num_tokens(self, indices: Sequence[int]) -> int:
        """Every place is predicted."""
        return len(indices) * self.order.length

    def make(self, indices: Sequence[int]) -> Segment:
        """The segments that begin at these places."""
        places = np.array(indices)[:, None] + np.arange(self.order.length + 1)
        tokens = torch.from_numpy(self._with_start[places])
        return Segment(
            tokens=tokens[:, :-1].contiguous(),
            labels=tokens[:, 1:].contiguous(),
            fresh=torch.tensor([self.order.is_fresh(start) for start in indices]),
            num_tokens=self.num_tokens(indices),
        )
