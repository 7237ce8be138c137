"""Training and evaluation examples as token ids: sentence pairs, and sentences with classes."""

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
from regard.data.text.pairs import Pair, dropped_sentence
from regard.data.text.sentences import Sentence
from regard.data.text.tokenizer import Tokenizer, Tokenizers

CHUNK = 10_000
"""Pairs that are encoded in one call of the tokenizer."""


@dataclass(frozen=True)
class Example:
    """A pair as ids: the source ends with <eos>, the target has neither <bos> nor <eos>."""

    source: tuple[int, ...]
    target: tuple[int, ...]


@dataclass(frozen=True, eq=False)
class Examples(Sequence[Example]):
    """Examples of pairs; `indices[i]` is the index of the pair of example i, `dropped` counts the others by reason."""

    source: Ragged
    target: Ragged
    indices: Int[np.ndarray, " N"]
    dropped: Mapping[str, int] = field(default_factory=dict)

    def __len__(self) -> int:
        return len(self.source)

    @overload
    def __getitem__(self, index: int) -> Example: ...

    @overload
    def __getitem__(self, index: slice) -> list[Example]: ...

    def __getitem__(self, index: int | slice) -> Example | list[Example]:
        if isinstance(index, slice):
            return [self[number] for number in range(*index.indices(len(self)))]
        row = index + len(self) if index < 0 else index
        return Example(self.source.row(row), self.target.row(row))

    @property
    def lengths(self) -> Int[np.ndarray, "N 2"]:
        """Input tokens of each side: the source with <eos>, the target with <bos>."""
        return np.stack([self.source.lengths, self.target.lengths + 1], axis=1)

    @property
    def report(self) -> str:
        """How many pairs were dropped and why; empty if none was."""
        return dropped_sentence(self.dropped, "pairs")

    def num_tokens(self, rows: Sequence[int]) -> int:
        """Labels of these examples: their target tokens and <eos>."""
        # one <eos> per example
        return int(self.target.lengths[list(rows)].sum()) + len(rows)

    def label_counts(self, vocab_size: int) -> Int[np.ndarray, " vocab"]:
        """How often each token is a label: the target tokens, and <eos> once per example."""
        counts = np.bincount(self.target.values, minlength=vocab_size)
        counts[EOS] += len(self)
        return counts

    def batch(self, rows: Sequence[int], *, packed: bool = False) -> Batch:
        """These examples as a batch; faster than `collate`, because no tuples are formed."""
        return make_batch(self.source.take(rows), self.target.take(rows), packed=packed)


def make_examples(pairs: Iterable[Pair], tokenizers: Tokenizers, max_length: int | None = None) -> Examples:
    """Encode pairs; those with over `max_length` tokens on a side, without special tokens, are dropped and counted."""
    sources: list[list[int]] = []
    targets: list[list[int]] = []
    # the original indices, because dropped pairs leave gaps
    indices: list[int] = []
    too_long, empty = f"with over {max_length} tokens on a side", "with a side that has no token"
    dropped = {too_long: 0, empty: 0}
    # length is tested on tokens, as it depends on the tokenizer
    for index, source, target in _encode(pairs, tokenizers):
        if not source or not target:
            dropped[empty] += 1
        elif max_length is not None and max(len(source), len(target)) > max_length:
            dropped[too_long] += 1
        else:
            # the source has its <eos> already; <bos> and <eos> of the target are added in batches
            sources.append([*source, EOS])
            targets.append(target)
            indices.append(index)
    dropped = {reason: count for reason, count in dropped.items() if count}
    if not indices:
        report = dropped_sentence(dropped, "pairs") or "there were none."
        raise ValueError(f"no pair is left to learn from: {report}")
    return Examples(Ragged.of(sources), Ragged.of(targets), np.array(indices), dropped)


def _encode(pairs: Iterable[Pair], tokenizers: Tokenizers) -> Iterator[tuple[int, list[int], list[int]]]:
    """The index of each pair, and its two sides as ids."""
    # in chunks: the tokenizer encodes a batch in parallel, and the pairs may be a stream
    remaining, first = iter(pairs), 0
    while chunk := list(islice(remaining, CHUNK)):
        sources = tokenizers.source.encode_batch([pair.source for pair in chunk])
        targets = tokenizers.target.encode_batch([pair.target for pair in chunk])
        yield from zip(range(first, first + len(chunk)), sources, targets, strict=True)
        first += len(chunk)


IGNORED_LABEL = -100
"""The label of a class that does not occur in training; it is ignored by torch's cross-entropy."""


@dataclass(frozen=True, eq=False)
class ClassificationExamples:
    """Examples of sentences with classes; `labels[i]` is the index of the class `truths[i]`, or IGNORED_LABEL.

    `num_truncated` counts the sentences with more than `max_length` tokens.
    """

    ids: Ragged
    labels: Int[np.ndarray, " N"]
    truths: tuple[str, ...]
    max_length: int | None = None
    num_truncated: int = 0

    def __len__(self) -> int:
        return len(self.ids)

    @property
    def lengths(self) -> Int[np.ndarray, "N 2"]:
        """The number of tokens, twice, as `Batching` expects two sides; at least 1: empty sentences have a cost too."""
        # both columns equal: the cost of an example is the larger of its two sides
        return np.repeat(np.maximum(self.ids.lengths, 1)[:, None], 2, axis=1)

    @property
    def unknown_classes(self) -> dict[str, int]:
        """The number of sentences of each class that does not occur in training."""
        return dict(
            Counter(truth for truth, label in zip(self.truths, self.labels, strict=True) if label == IGNORED_LABEL)
        )

    @property
    def report(self) -> str:
        """How many sentences were truncated or have unknown classes; empty if there are none."""
        sentences = []
        if self.num_truncated:
            sentences.append(
                f"truncated {self.num_truncated:,} of {len(self):,} sentences to {self.max_length} tokens."
            )
        if self.unknown_classes:
            each = ", ".join(f"{label!r} ({count:,})" for label, count in self.unknown_classes.items())
            sentences.append(
                f"training never saw the classes of {sum(self.unknown_classes.values()):,} sentences: {each}."
            )
        return " ".join(sentences)

    def num_tokens(self, rows: Sequence[int]) -> int:
        """The number of these sentences that have a label."""
        # asarray with a type: an empty list would give floats, which are no indices
        return int((self.labels[np.asarray(rows, dtype=np.int64)] != IGNORED_LABEL).sum())

    def batch(self, rows: Sequence[int], *, packed: bool = False) -> ClassificationBatch:
        """These sentences, in this order, padded."""
        if packed:
            raise ValueError("packed is True, but sentences with classes have padded batches only. Leave packed out.")
        row_ids = self.ids.take(rows)
        lengths = row_ids.lengths
        mask: Bool[np.ndarray, "B L"] = np.arange(int(lengths.max(initial=0))) < lengths[:, None]
        ids: Int[np.ndarray, "B L"] = np.full(mask.shape, PAD, np.int64)
        # a boolean index runs over the rows in order, as the values do
        ids[mask] = row_ids.values
        return ClassificationBatch(
            sentences=PaddedTokens(torch.from_numpy(ids), torch.from_numpy(lengths)),
            labels=torch.from_numpy(self.labels[np.asarray(rows, dtype=np.int64)]),
            num_tokens=self.num_tokens(rows),
        )


def make_classification_examples(
    sentences: Sequence[Sentence], tokenizer: Tokenizer, classes: Sequence[str], max_length: int | None = None
) -> ClassificationExamples:
    """Encode sentences; those with more than `max_length` tokens are truncated and counted, and none is dropped."""
    if not sentences:
        raise ValueError("there are no sentences to encode. Give at least one.")
    if max_length is not None and max_length < 1:
        raise ValueError(f"max_length is {max_length}, expected 1 token or more, or none for no limit.")
    if len(set(classes)) != len(classes) or not classes:
        raise ValueError(f"classes are {tuple(classes)}, expected one or more different names.")
    ids = tokenizer.encode_batch([sentence.text for sentence in sentences])
    indices = {label: index for index, label in enumerate(classes)}
    truths = tuple(sentence.label for sentence in sentences)
    return ClassificationExamples(
        ids=Ragged.of([row[:max_length] for row in ids]),
        # classes that training does not have stay in the data, so that accuracy counts them
        labels=np.array([indices.get(truth, IGNORED_LABEL) for truth in truths], dtype=np.int64),
        truths=truths,
        max_length=max_length,
        num_truncated=0 if max_length is None else sum(len(row) > max_length for row in ids),
    )


@dataclass(frozen=True)
class ExampleData:
    """TrainingData of examples: of pairs, or of sentences with classes."""

    examples: Examples | ClassificationExamples
    batching: Batching

    # the lengths of all examples are gathered once, not in every epoch
    @cached_property
    def order(self) -> BucketedOrder:
        """The batches of every epoch."""
        return self.batching.order(self.examples.lengths)

    def share(self, indices: Sequence[int], part: int, of: int) -> Sequence[int]:
        """Every `of`-th example of a batch, beginning with number `part`."""
        return share(indices, part, of)

    def num_tokens(self, indices: Sequence[int]) -> int:
        """The number of labels of these examples."""
        return self.examples.num_tokens(indices)

    def make(self, indices: Sequence[int]) -> Any:
        """These examples as a batch."""
        return self.examples.batch(indices, packed=self.batching.packed)
