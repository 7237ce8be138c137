"""Sentences that are made, not read: dates, and strings to reverse or copy. Endless, with one right answer each."""

from dataclasses import dataclass, replace
from itertools import islice

from regard.data import SPLITS, Copy, Dates, Pairs, Reverse
from regard.recipes.corpora import check_split

NUM_SAMPLES, MAX_SAMPLE_DATES, MAX_SAMPLE_LENGTH = 6, 2, 20


@dataclass(frozen=True, kw_only=True)
class MadeCorpus:
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
