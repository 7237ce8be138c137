"""Segments of a token stream for training: consecutive segments of parallel rows, or random crops.

    stream   N tokens are split into `rows` rows of N / rows; step k has positions k length .. (k + 1) length of each
    crops    every step has `rows` segments that begin anywhere; an epoch has as many steps as in a stream

The remainder at the end of a row, which is shorter than a segment, is not used. A text that is too short for the number
of rows or the length of segments has fewer and shorter ones.
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
    """Settings of a training step on a text: `rows` segments of `length` tokens, from a stream or random crops."""

    rows: int = 20
    length: int = 35
    cut: Cut = "stream"
    seed: int = 0

    def __post_init__(self) -> None:
        check_name(self.cut, get_args(Cut), "way to split a text")
        for name, count in (("rows", self.rows), ("length", self.length)):
            if count < 1:
                raise ValueError(f"batch.{name} is {count}, expected 1 or more.")
        if self.seed < 0:
            raise ValueError(f"the seed is {self.seed}. Give 0 or more.")


@dataclass(frozen=True)
class SegmentOrder:
    """The start positions of the segments of every step."""

    num_tokens: int
    settings: SegmentSettings

    @property
    def length(self) -> int:
        """The number of tokens of a segment."""
        # a text shorter than a segment is one segment
        return min(self.settings.length, self.num_tokens)

    @property
    def rows(self) -> int:
        """The number of segments of a step."""
        # fewer rows rather than rows that are shorter than a segment
        return max(min(self.settings.rows, self.num_tokens // self.length), 1)

    @property
    def row_length(self) -> int:
        """The number of positions from the start of one row to that of the next."""
        return self.num_tokens // self.rows

    def epoch(self, number: int) -> list[list[int]]:
        """The start positions of the segments of every step."""
        if self.settings.cut == "stream":
            starts = np.arange(self.rows) * self.row_length
            steps = self.row_length // self.length
            # (steps, 1) + (rows) -> (steps, rows): a row is contiguous text over the steps, as the state requires
            return (starts + self.length * np.arange(steps)[:, None]).tolist()
        steps = max(self.num_tokens // (self.rows * self.length), 1)
        # raw output of the bit generator, which numpy guarantees never to change
        numbers = np.random.PCG64(np.random.SeedSequence([self.settings.seed, number])).random_raw((steps, self.rows))
        # modulo in unsigned integers, exact for 64 bits; the bias is below N / 2^64
        return (numbers % np.uint64(self.num_tokens - self.length + 1)).astype(np.int64).tolist()

    def is_fresh(self, start: int) -> bool:
        """True if a segment with this start has no predecessor, so that its state is the initial one."""
        # only the first step of a row: the last start of a row is less than row_length after its first
        return self.settings.cut == "crops" or (start % self.row_length) == 0


@dataclass(frozen=True, eq=False)
class SegmentData:
    """TrainingData of a token stream; the indices of a batch are the start positions of its segments."""

    stream: Stream
    settings: SegmentSettings = field(default_factory=SegmentSettings)

    @cached_property
    def order(self) -> SegmentOrder:
        """The segments of every step."""
        return SegmentOrder(len(self.stream), self.settings)

    @cached_property
    def _with_start(self) -> Int[np.ndarray, " N_and_one"]:
        # the first token is predicted from <eos>
        # shifted by one: position p of this array is the input whose label is token p of the stream
        return np.concatenate([[EOS], self.stream.ids]).astype(np.int64)

    def share(self, indices: Sequence[int], part: int, of: int) -> Sequence[int]:
        """Every `of`-th row, beginning with number `part`."""
        return share(indices, part, of)

    def num_tokens(self, indices: Sequence[int]) -> int:
        """The number of labels: every position is predicted."""
        return len(indices) * self.order.length

    def make(self, indices: Sequence[int]) -> Segment:
        """The segments with these start positions."""
        # one token more than the length: inputs are all but the last, labels all but the first
        positions = np.array(indices)[:, None] + np.arange(self.order.length + 1)
        tokens = torch.from_numpy(self._with_start[positions])
        return Segment(
            # contiguous copies: both are slices of one array
            tokens=tokens[:, :-1].contiguous(),
            labels=tokens[:, 1:].contiguous(),
            fresh=torch.tensor([self.order.is_fresh(start) for start in indices]),
            num_tokens=self.num_tokens(indices),
        )
