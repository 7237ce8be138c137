"""Which part of an endless set a piece of content belongs to: its hash decides, so that the parts never meet."""

import random
from collections.abc import Callable, Iterator
from hashlib import blake2b
from typing import Any, TypeVar

from regard._utils import check_name

Content = TypeVar("Content")

SPLITS = {"train": range(80), "validation": range(80, 90), "test": range(90, 100)}
"""Hundredths of all content."""

TRIES = 10_000


def split_of(content: str) -> str:
    """The part that this content belongs to, on every machine and for every seed."""
    place = int.from_bytes(blake2b(content.encode(), digest_size=8).digest(), "big") % 100
    return next(name for name, places in SPLITS.items() if place in places)


def draw_from(
    split: str, seed: int, draw: Callable[[random.Random], Content], key: Callable[[Content], str]
) -> Iterator[tuple[random.Random, Content]]:
    """Drawn content of one part without end, with the generator to draw more from."""
    check_name(split, SPLITS, "split")
    chance, misses = random.Random(f"{split} {seed}"), 0
    while misses < TRIES:
        content = draw(chance)
        if split_of(key(content)) == split:
            misses = 0
            yield chance, content
        else:
            misses += 1
    raise ValueError(f"{TRIES:,} draws gave nothing for {split}: the set is too small. Allow more different content.")


def below(chance: random.Random, number: int) -> int:
    """A whole number in 0 .. number - 1; `random()` is the one method that Python promises never to change."""
    return int(chance.random() * number)


def samples_of(corpus: Any) -> list[str]:
    """A few inputs to begin with; a corpus offers them by a method `samples`, which it may leave out."""
    samples = getattr(corpus, "samples", None)
    return [] if samples is None else list(samples())
