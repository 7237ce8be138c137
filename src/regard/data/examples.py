"""Pairs as ids, ready to be learned from, and what was too long for it."""

from collections.abc import Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass, field
from itertools import islice
from typing import overload

import numpy as np
from jaxtyping import Int

from regard.contracts import EOS, Batch
from regard.data.collate import make_batch
from regard.data.pairs import Pair, dropped_sentence
from regard.data.ragged import Ragged
from regard.data.tokenizer import Tokenizers

CHUNK = 10_000
"""Pairs that are encoded at a time."""


@dataclass(frozen=True)
class Example:
    """A pair as ids: the source ends with <eos>, the target has no marks."""

    source: tuple[int, ...]
    target: tuple[int, ...]


@dataclass(frozen=True, eq=False)
class Examples(Sequence[Example]):
    """Many examples; `kept[i]` is the place of example i's pair among the pairs, `dropped` counts the others."""

    source: Ragged
    target: Ragged
    kept: Int[np.ndarray, " N"]
    dropped: Mapping[str, int] = field(default_factory=dict)

    def __len__(self) -> int:
        return len(self.source)

    @overload
    def __getitem__(self, index: int) -> Example: ...

    @overload
    def __getitem__(self, index: slice) -> list[Example]: ...

    def __getitem__(self, index: int | slice) -> Example | list[Example]:
        if isinstance(index, slice):
            return [self[place] for place in range(*index.indices(len(self)))]
        place = index + len(self) if index < 0 else index
        return Example(self.source.row(place), self.target.row(place))

    @property
    def lengths(self) -> Int[np.ndarray, "N 2"]:
        """Tokens that a model reads on each side: the source with <eos>, the target with <bos>."""
        return np.stack([self.source.lengths, self.target.lengths + 1], axis=1)

    @property
    def report(self) -> str:
        """What was dropped, as a sentence; empty where nothing was."""
        return dropped_sentence(self.dropped, "pairs")

    def num_tokens(self, rows: Sequence[int]) -> int:
        """Target tokens of these examples, each end among them."""
        return int(self.target.lengths[list(rows)].sum()) + len(rows)

    def batch(self, rows: Sequence[int], *, packed: bool = False) -> Batch:
        """These examples as a batch: `collate` without a detour through tuples."""
        return make_batch(self.source.take(rows), self.target.take(rows), packed=packed)


def make_examples(pairs: Iterable[Pair], tokenizers: Tokenizers, max_length: int | None = None) -> Examples:
    """Encode pairs; those with more than `max_length` tokens on a side, not counting marks, are dropped and counted."""
    sources: list[list[int]] = []
    targets: list[list[int]] = []
    kept: list[int] = []
    too_long, without = f"with over {max_length} tokens on a side", "with a side that has no token"
    dropped = {too_long: 0, without: 0}
    for place, source, target in _encoded(pairs, tokenizers):
        if not source or not target:
            dropped[without] += 1
        elif max_length is not None and max(len(source), len(target)) > max_length:
            dropped[too_long] += 1
        else:
            sources.append([*source, EOS])
            targets.append(target)
            kept.append(place)
    dropped = {reason: count for reason, count in dropped.items() if count}
    if not kept:
        report = dropped_sentence(dropped, "pairs") or "there were none."
        raise ValueError(f"no pair is left to learn from: {report}")
    return Examples(Ragged.of(sources), Ragged.of(targets), np.array(kept), dropped)


def _encoded(pairs: Iterable[Pair], tokenizers: Tokenizers) -> Iterator[tuple[int, list[int], list[int]]]:
    """Each pair's place and its two sides as ids."""
    waiting, first = iter(pairs), 0
    while chunk := list(islice(waiting, CHUNK)):
        sources = tokenizers.source.encode_batch([pair.source for pair in chunk])
        targets = tokenizers.target.encode_batch([pair.target for pair in chunk])
        yield from zip(range(first, first + len(chunk)), sources, targets, strict=True)
        first += len(chunk)
