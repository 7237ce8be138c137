"""Synthetic corpora: dates, an invented language, and letters to copy or to reverse; each source has one target.

copy     a c b  ->  a c b
reverse  a c b  ->  b c a
"""

import random
from dataclasses import dataclass, replace
from itertools import islice

from regard.contracts import Description, Title
from regard.data.corpora.base import SPLITS, draw_from, random_below
from regard.data.corpora.dates import Dates
from regard.data.corpora.invented import InventedLanguage
from regard.data.corpora.parallel import check_split
from regard.data.text.pairs import Pair, Pairs


@dataclass(frozen=True, kw_only=True)
class Copy:
    """Letters of an alphabet, separated by spaces; letters and lengths are uniformly distributed."""

    alphabet: str = "abcdefghijklmnopqrstuvwxyz"
    min_length: int = 3
    max_length: int = 20

    def __post_init__(self) -> None:
        letters = self.alphabet
        if not letters or len(set(letters)) < len(letters) or any(letter.isspace() for letter in letters):
            raise ValueError(
                f"the alphabet {letters!r} is empty, or has a space or a repeated letter. Give different letters."
            )
        if not 1 <= self.min_length <= self.max_length:
            raise ValueError(
                f"lengths from {self.min_length} to {self.max_length} are empty. Give 1 <= min_length <= max_length."
            )

    @property
    def description(self) -> Description:
        """Letters and their target."""
        lengths = f"{self.min_length}" + (f"-{self.max_length}" if self.max_length > self.min_length else "")
        return Description(
            reads=Title(
                en=f"{lengths} letters of {self.alphabet}, with spaces between them",
                zh=f"{lengths} 个以空格分隔的字母（{self.alphabet}）",
            ),
            writes=self.target_title,
        )

    @property
    def target_title(self) -> Title:
        """The target in words."""
        return Title(en="the same letters", zh="相同的字母")

    def pairs(self, count: int, *, split: str = "train", seed: int = 0) -> list[Pair]:
        """`count` pairs; equal arguments give equal pairs, and no string occurs in two splits."""
        texts = draw_from(split, seed, self._draw, str)
        return [self._pair(letters) for _, letters in islice(texts, count)]

    def _draw(self, rng: random.Random) -> str:
        length = self.min_length + random_below(rng, self.max_length - self.min_length + 1)
        return "".join(self.alphabet[random_below(rng, len(self.alphabet))] for _ in range(length))

    def _pair(self, letters: str) -> Pair:
        text = " ".join(letters)
        # letters are at even characters, spaces between them
        return Pair(text, text, tuple((i, i + 1, i, i + 1) for i in range(0, len(text), 2)), "copy")


@dataclass(frozen=True, kw_only=True)
class Reverse(Copy):
    """Letters of an alphabet; the target is in reverse order."""

    @property
    def target_title(self) -> Title:
        """The target in words."""
        return Title(en="the same letters in reverse order", zh="倒序的字母")

    def _pair(self, letters: str) -> Pair:
        text = " ".join(letters)
        last = len(text) - 1
        # the text has odd length, so i and last - i are both letters
        spans = tuple((i, i + 1, last - i, last - i + 1) for i in range(0, len(text), 2))
        return Pair(text, text[::-1], spans, "reverse")


SyntheticContent = Dates | Reverse | Copy | InventedLanguage
NUM_SAMPLES, MAX_SAMPLE_DATES, MAX_SAMPLE_LENGTH = 6, 2, 20


@dataclass(frozen=True, kw_only=True)
class SyntheticCorpus:
    """`count` training pairs, and `held_out` pairs each for validation and test; no content is in two splits."""

    content: SyntheticContent
    count: int = 50_000
    held_out: int = 1000
    seed: int = 0

    def __post_init__(self) -> None:
        for name, count in (("count", self.count), ("held_out", self.held_out)):
            if count < 1:
                raise ValueError(f"data.{name} is {count}, expected 1 or more.")

    @property
    def splits(self) -> tuple[str, ...]:
        """Train, validation and test."""
        return tuple(SPLITS)

    @property
    def languages(self) -> tuple[str, str]:
        """The languages of the dates; letters and invented languages have none."""
        return (self.content.source, self.content.target) if isinstance(self.content, Dates) else ("", "")

    @property
    def description(self) -> Description:
        """That of the content."""
        return self.content.description

    @property
    def tokenised(self) -> bool:
        """True but for dates: letters and invented words are separated by spaces."""
        return not isinstance(self.content, Dates)

    def read(self, split: str) -> Pairs:
        """Generate the pairs of a split; equal seeds give equal pairs."""
        count = self.count if check_split(split) == "train" else self.held_out
        return Pairs(tuple(self.content.pairs(count, split=split, seed=self.seed)))

    def samples(self) -> list[str]:
        """A few short sources of the test split."""
        content = shorten(self.content)
        return [pair.source for pair in islice(content.pairs(NUM_SAMPLES, split="test", seed=self.seed), NUM_SAMPLES)]


def shorten(content: SyntheticContent) -> SyntheticContent:
    """The same content with an upper bound for its length."""
    if isinstance(content, Dates):
        return replace(content, max_dates=min(content.max_dates, MAX_SAMPLE_DATES))
    if isinstance(content, InventedLanguage):
        return replace(content, max_clauses=1)
    return replace(
        content,
        max_length=min(content.max_length, MAX_SAMPLE_LENGTH),
        # the minimum too, or it could exceed the new maximum
        min_length=min(content.min_length, MAX_SAMPLE_LENGTH),
    )


DATASETS = {"dates": Dates, "reverse": Reverse, "copy": Copy, "invented": InventedLanguage}
"""Synthetic contents by name: settings with a method `pairs(count, split=.., seed=..)`."""
