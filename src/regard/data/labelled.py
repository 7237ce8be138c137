"""Sentences as ids with the numbers of their classes, ready to be learned from or to be judged by."""

from collections import Counter
from collections.abc import Sequence
from dataclasses import dataclass
from functools import cached_property
from typing import Any

import numpy as np
import torch
from jaxtyping import Bool, Int

from regard.contracts import PAD, Labelled, Sequences
from regard.data.examples import Examples
from regard.data.order import Batching, Order, share
from regard.data.ragged import Ragged
from regard.data.sentences import Sentence
from regard.data.tokenizer import Tokenizer

UNSEEN = -100
"""The number of a class that training never saw; torch's cross-entropy passes it by."""


@dataclass(frozen=True, eq=False)
class LabelledExamples:
    """Many sentences; `labels[i]` is the place of `truths[i]` among the classes, or UNSEEN.

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
        return dict(Counter(truth for truth, label in zip(self.truths, self.labels, strict=True) if label == UNSEEN))

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
        return int((self.labels[np.asarray(rows, dtype=np.int64)] != UNSEEN).sum())

    def batch(self, rows: Sequence[int], *, packed: bool = False) -> Labelled:
        """These sentences, in this order, padded."""
        if packed:
            raise ValueError("packed is True, but sentences with classes are batched padded. Leave packed out.")
        chosen = self.ids.take(rows)
        lengths = chosen.lengths
        real: Bool[np.ndarray, "B L"] = np.arange(int(lengths.max(initial=0))) < lengths[:, None]
        ids: Int[np.ndarray, "B L"] = np.full(real.shape, PAD, np.int64)
        ids[real] = chosen.values
        return Labelled(
            sentences=Sequences(torch.from_numpy(ids), torch.from_numpy(lengths)),
            labels=torch.from_numpy(self.labels[np.asarray(rows, dtype=np.int64)]),
            num_tokens=self.num_tokens(rows),
        )


def make_labelled(
    sentences: Sequence[Sentence], tokenizer: Tokenizer, classes: Sequence[str], max_length: int | None = None
) -> LabelledExamples:
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
    return LabelledExamples(
        ids=Ragged.of([row[:max_length] for row in ids]),
        labels=np.array([places.get(truth, UNSEEN) for truth in truths], dtype=np.int64),
        truths=truths,
        max_length=max_length,
        cut=0 if max_length is None else sum(len(row) > max_length for row in ids),
    )


@dataclass(frozen=True)
class ExampleData:
    """Examples as training takes them: pairs, or sentences with their classes."""

    examples: Examples | LabelledExamples
    batching: Batching

    @cached_property
    def order(self) -> Order:
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
