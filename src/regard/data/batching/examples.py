"""Pairs and labelled sentences as token ids for training.

Pairs as ids, ready to be learned from, and what was too long for it.

Sentences as ids with the numbers of their classes, ready to be learned from or to be judged by.
"""

from collections import Counter
from collections.abc import Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass, field
from functools import cached_property
from itertools import islice
from typing import Any, overload

import numpy as np
import torch
from jaxtyping import Bool, Int

from regard.contracts import EOS, PAD, Batch, ClassificationBatch, PaddedTokens
from regard.data.batching.collate import Ragged, make_batch
from regard.data.batching.order import Batching, BucketedOrder, share
from regard.data.text.labelled import Sentence
from regard.data.text.pairs import Pair, dropped_sentence
from regard.data.text.tokenizer import Tokenizer, Tokenizers

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


IGNORED_LABEL = -100
"""The number of a class that training never saw; torch's cross-entropy passes it by."""


@dataclass(frozen=True, eq=False)
class ClassificationExamples:
    """Many sentences; `labels[i]` is the place of `truths[i]` among the classes, or IGNORED_LABEL.

    `cut` counts those that were longer than `max_length` tokens and lost their end.
    """

    ids: Ragged
    labels: Int[np.ndarray, " N"]
    truths: tuple[str, ...]
    max_length: int | None = None
    cut: int = 0

    def __len__(self) -> int:
        return len(self.ids)

    @property
    def lengths(self) -> Int[np.ndarray, "N 2"]:
        """What a sentence costs, as `Batching` takes it: its tokens, twice; an empty one takes a place too."""
        return np.repeat(np.maximum(self.ids.lengths, 1)[:, None], 2, axis=1)

    @property
    def unseen(self) -> dict[str, int]:
        """How many sentences there are of each class that training never saw."""
        return dict(
            Counter(truth for truth, label in zip(self.truths, self.labels, strict=True) if label == IGNORED_LABEL)
        )

    @property
    def report(self) -> str:
        """What was cut and what can only be got wrong, as sentences; empty where there is nothing to say."""
        said = []
        if self.cut:
            said.append(f"cut {self.cut:,} of {len(self):,} sentences to {self.max_length} tokens.")
        if self.unseen:
            each = ", ".join(f"{label!r} ({count:,})" for label, count in self.unseen.items())
            said.append(f"training never saw the classes of {sum(self.unseen.values()):,} sentences: {each}.")
        return " ".join(said)

    def num_tokens(self, rows: Sequence[int]) -> int:
        """How many of these sentences have a class to be learned."""
        return int((self.labels[np.asarray(rows, dtype=np.int64)] != IGNORED_LABEL).sum())

    def batch(self, rows: Sequence[int], *, packed: bool = False) -> ClassificationBatch:
        """These sentences, in this order, padded."""
        if packed:
            raise ValueError("packed is True, but sentences with classes are batched padded. Leave packed out.")
        chosen = self.ids.take(rows)
        lengths = chosen.lengths
        real: Bool[np.ndarray, "B L"] = np.arange(int(lengths.max(initial=0))) < lengths[:, None]
        ids: Int[np.ndarray, "B L"] = np.full(real.shape, PAD, np.int64)
        ids[real] = chosen.values
        return ClassificationBatch(
            sentences=PaddedTokens(torch.from_numpy(ids), torch.from_numpy(lengths)),
            labels=torch.from_numpy(self.labels[np.asarray(rows, dtype=np.int64)]),
            num_tokens=self.num_tokens(rows),
        )


def make_classification_examples(
    sentences: Sequence[Sentence], tokenizer: Tokenizer, classes: Sequence[str], max_length: int | None = None
) -> ClassificationExamples:
    """Encode sentences; what goes beyond `max_length` tokens is cut off and counted, and no sentence is dropped."""
    if not sentences:
        raise ValueError("there are no sentences to encode. Give at least one.")
    if max_length is not None and max_length < 1:
        raise ValueError(f"max_length is {max_length}, expected 1 token or more, or none for whole sentences.")
    if len(set(classes)) != len(classes) or not classes:
        raise ValueError(f"classes are {tuple(classes)}, expected at least one, and each once.")
    ids = tokenizer.encode_batch([sentence.text for sentence in sentences])
    places = {label: place for place, label in enumerate(classes)}
    truths = tuple(sentence.label for sentence in sentences)
    return ClassificationExamples(
        ids=Ragged.of([row[:max_length] for row in ids]),
        labels=np.array([places.get(truth, IGNORED_LABEL) for truth in truths], dtype=np.int64),
        truths=truths,
        max_length=max_length,
        cut=0 if max_length is None else sum(len(row) > max_length for row in ids),
    )


@dataclass(frozen=True)
class ExampleData:
    """Examples as training takes them: pairs, or sentences with their classes."""

    examples: Examples | ClassificationExamples
    batching: Batching

    @cached_property
    def order(self) -> BucketedOrder:
        """Which examples make which batch."""
        return self.batching.order(self.examples.lengths)

    def share(self, indices: Sequence[int], part: int, of: int) -> Sequence[int]:
        """Every `of`-th example of a batch."""
        return share(indices, part, of)

    def num_tokens(self, indices: Sequence[int]) -> int:
        """How many labels these examples have."""
        return self.examples.num_tokens(indices)

    def make(self, indices: Sequence[int]) -> Any:
        """These examples as a batch."""
        return self.examples.batch(indices, packed=self.batching.packed)
