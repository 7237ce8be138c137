"""Splits by hashes: the content of an example determines its split, so that splits never overlap."""

import random
from collections.abc import Callable, Iterable, Iterator
from hashlib import blake2b, sha1
from typing import Any, Literal, TypeVar, get_args

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


Assignment = Literal["hash", "rank"]
"""How examples are held out of a user's training files.

    hash   by the SHA-1 of the example alone: it has the same split in every version of the files
    rank   a share of all examples, sorted by SHA-1: sizes are exact, but an example may change its split when the files
           grow; the assignment of runs before there was a choice
"""

MAX_HELD_OUT = 2000
"""Held out examples that a split has at most, so that large corpora are not evaluated for hours."""


def check_assignment(assignment: str) -> None:
    """Raise ValueError for an unknown assignment."""
    check_name(assignment, get_args(Assignment), "assignment")


def digest(text: str) -> str:
    """The SHA-1 of a sentence as hexadecimal digits."""
    return sha1(text.encode(), usedforsecurity=False).hexdigest()


def part_of(text: str, parts: int) -> int:
    """The SHA-1 of a text modulo `parts`: the same on every machine."""
    return int(digest(text), 16) % parts


def held_out_by_hash(
    texts: Iterable[str], names: Iterable[str], parts: int, *, origin: str, otherwise: str = "rank"
) -> dict[str, set[str]]:
    """The texts of validation and test, as far as they are in `names`: 1 / `parts` of all texts each, by their SHA-1.

    `otherwise` is the assignment that an error suggests for data in which a split has no text.
    """
    held_out: dict[str, set[str]] = {name: set() for name in names}
    for text in texts:
        # part 0 is the test and part 1 validation, as in TatoebaCorpus
        name = {0: "test", 1: "validation"}.get(part_of(text, parts))
        if name in held_out:
            held_out[name].add(text)
    for name, members in held_out.items():
        if not members:
            raise ValueError(
                f"{origin} is too short to hold out a part for {name}: none of its texts is among the one in {parts} "
                f"that its SHA-1 selects. Give a file for it (--valid-source, --test-source), more text, or --set "
                f"data.assignment={otherwise}."
            )
    return held_out


def samples_of(corpus: Any) -> list[str]:
    """A few example inputs from the optional method `samples` of a corpus."""
    samples = getattr(corpus, "samples", None)
    return [] if samples is None else list(samples())
