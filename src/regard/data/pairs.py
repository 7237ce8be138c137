"""A sentence and its translation, and a set of them that says what was left out of it."""

from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass, field
from typing import overload

Span = tuple[int, int, int, int]
"""Characters [a, b) of the source stand for characters [c, d) of the target: (a, b, c, d)."""


@dataclass(frozen=True)
class Pair:
    """A source and its target; embedded sets also know which spans translate each other, and the pair's kind."""

    source: str
    target: str
    spans: tuple[Span, ...] | None = None
    kind: str | None = None

    @property
    def links(self) -> tuple[tuple[int, int], ...] | None:
        """The true alignment, where it is known: every (source character, target character) of linked spans."""
        if self.spans is None:
            return None
        return tuple((i, j) for a, b, c, d in self.spans for i in range(a, b) for j in range(c, d))


def dropped_sentence(dropped: Mapping[str, int], what: str) -> str:
    """`dropped 3 pairs: 2 with an empty source, 1 with an empty target.`, or nothing where nothing was dropped."""
    reasons = ", ".join(f"{count:,} {reason}" for reason, count in dropped.items() if count)
    return f"dropped {sum(dropped.values()):,} {what}: {reasons}." if reasons else ""


@dataclass(frozen=True)
class Pairs(Sequence[Pair]):
    """The pairs of a file, and how many were dropped for which reason."""

    pairs: tuple[Pair, ...]
    dropped: Mapping[str, int] = field(default_factory=dict)

    def __len__(self) -> int:
        return len(self.pairs)

    def __iter__(self) -> Iterator[Pair]:
        return iter(self.pairs)

    @overload
    def __getitem__(self, index: int) -> Pair: ...

    @overload
    def __getitem__(self, index: slice) -> tuple[Pair, ...]: ...

    def __getitem__(self, index: int | slice) -> Pair | tuple[Pair, ...]:
        return self.pairs[index]

    @property
    def report(self) -> str:
        """What was dropped, as a sentence; empty where nothing was."""
        return dropped_sentence(self.dropped, "pairs")
