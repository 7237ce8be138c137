"""Splits of synthetic data: the hash of a content determines its split, so that splits never overlap."""

import random
from collections.abc import Callable, Iterator
from hashlib import blake2b
from typing import Any, TypeVar

from regard._utils import check_name

Item = TypeVar("Item")

SPLITS = {"train": range(80), "validation": range(80, 90), "test": range(90, 100)}
"""Hundredths of all contents."""

MAX_MISSES = 10_000
"""Random contents of other splits in a row after which the set is considered too small."""


def split_of(content: str) -> str:
    """The split of a content, the same on every machine and for every seed."""
    # a hash of the content itself: Python's hash() differs between processes
    bucket = int.from_bytes(blake2b(content.encode(), digest_size=8).digest(), "big") % 100
    return next(name for name, buckets in SPLITS.items() if bucket in buckets)


def draw_from(
    split: str, seed: int, draw: Callable[[random.Random], Item], key: Callable[[Item], str]
) -> Iterator[tuple[random.Random, Item]]:
    """Random contents of one split without end, each with the random generator for further draws."""
    check_name(split, SPLITS, "split")
    # a string seed: Python hashes it with SHA-512, so the numbers are the same on every machine
    rng, misses = random.Random(f"{split} {seed}"), 0
    while misses < MAX_MISSES:
        content = draw(rng)
        if split_of(key(content)) == split:
            misses = 0
            # only misses in a row count: any hit shows that the split is not empty
            yield rng, content
        else:
            misses += 1
    raise ValueError(
        f"{MAX_MISSES:,} random contents gave none for {split}: the set is too small. Allow more different content."
    )


def random_below(rng: random.Random, number: int) -> int:
    """A random integer in 0 .. number - 1."""
    # random() is the only method whose numbers Python guarantees never to change
    return int(rng.random() * number)


def samples_of(corpus: Any) -> list[str]:
    """A few example inputs from the optional method `samples` of a corpus."""
    samples = getattr(corpus, "samples", None)
    return [] if samples is None else list(samples())
