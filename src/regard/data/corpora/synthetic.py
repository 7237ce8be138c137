"""Synthetic corpora: copy, reverse and dates, generated without end.

Copy and reverse: letters with spaces between them, to be said again in the same or the opposite order.

copy     a c b  ->  a c b
reverse  a c b  ->  b c a

Sentences that are made, not read: dates, and strings to reverse or copy. Endless, with one right answer each.
"""

import random
from dataclasses import dataclass, replace
from itertools import islice

from regard.data.corpora.base import SPLITS, below, draw_from
from regard.data.corpora.dates import Dates
from regard.data.corpora.parallel import check_split
from regard.data.text.pairs import (
    Pair,
    Pairs,
)


@dataclass(frozen=True, kw_only=True)
class Copy:
    """Letters of an alphabet, drawn evenly; the length is drawn evenly too."""

    alphabet: str = "abcdefghijklmnopqrstuvwxyz"
    min_length: int = 3
    max_length: int = 20

    def __post_init__(self) -> None:
        letters = self.alphabet
        if not letters or len(set(letters)) < len(letters) or any(letter.isspace() for letter in letters):
            raise ValueError(f"the alphabet {letters!r} is empty, has a space, or a letter twice. Give single letters.")
        if not 1 <= self.min_length <= self.max_length:
            raise ValueError(f"lengths from {self.min_length} to {self.max_length} are none. Give 1 <= min <= max.")

    def pairs(self, count: int, *, split: str = "train", seed: int = 0) -> list[Pair]:
        """So many pairs; the same arguments give the same ones, and no string occurs in two splits."""
        drawn = draw_from(split, seed, self._draw, str)
        return [self._pair(letters) for _, letters in islice(drawn, count)]

    def _draw(self, chance: random.Random) -> str:
        length = self.min_length + below(chance, self.max_length - self.min_length + 1)
        return "".join(self.alphabet[below(chance, len(self.alphabet))] for _ in range(length))

    def _pair(self, letters: str) -> Pair:
        text = " ".join(letters)
        return Pair(text, text, tuple((i, i + 1, i, i + 1) for i in range(0, len(text), 2)), "copy")


@dataclass(frozen=True, kw_only=True)
class Reverse(Copy):
    """Letters of an alphabet, the last one first."""

    def _pair(self, letters: str) -> Pair:
        text = " ".join(letters)
        last = len(text) - 1
        spans = tuple((i, i + 1, last - i, last - i + 1) for i in range(0, len(text), 2))
        return Pair(text, text[::-1], spans, "reverse")


NUM_SAMPLES, MAX_SAMPLE_DATES, MAX_SAMPLE_LENGTH = 6, 2, 20


@dataclass(frozen=True, kw_only=True)
class SyntheticCorpus:
    """`count` pairs to learn from and `held_out` each for validation and test, which share no content."""

    content: Dates | Reverse | Copy
    count: int = 50_000
    held_out: int = 1000
    seed: int = 0

    def __post_init__(self) -> None:
        for name, count in (("count", self.count), ("held_out", self.held_out)):
            if count < 1:
                raise ValueError(f"data.{name} is {count}, expected 1 or more.")

    @property
    def splits(self) -> tuple[str, ...]:
        """All three."""
        return tuple(SPLITS)

    @property
    def languages(self) -> tuple[str, str]:
        """Those of the dates; letters have none."""
        return (self.content.source, self.content.target) if isinstance(self.content, Dates) else ("", "")

    @property
    def tokenised(self) -> bool:
        """Letters have spaces between them."""
        return not isinstance(self.content, Dates)

    def read(self, split: str) -> Pairs:
        """The pairs of a split, the same for the same seed."""
        count = self.count if check_split(split) == "train" else self.held_out
        return Pairs(tuple(self.content.pairs(count, split=split, seed=self.seed)))

    def samples(self) -> list[str]:
        """Sources of the test split, which no model was trained on, of a length that one can read."""
        content = shorten(self.content)
        return [pair.source for pair in islice(content.pairs(NUM_SAMPLES, split="test", seed=self.seed), NUM_SAMPLES)]


def shorten(content: Dates | Reverse | Copy) -> Dates | Reverse | Copy:
    """The same content, short."""
    if isinstance(content, Dates):
        return replace(content, max_dates=min(content.max_dates, MAX_SAMPLE_DATES))
    return replace(
        content,
        max_length=min(content.max_length, MAX_SAMPLE_LENGTH),
        min_length=min(content.min_length, MAX_SAMPLE_LENGTH),
    )


DATASETS = {"dates": Dates, "reverse": Reverse, "copy": Copy}
"""Sets that are made, not loaded: settings whose `pairs(count, split=.., seed=..)` never runs out."""
