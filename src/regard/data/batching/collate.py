"""Arrays of ragged rows, and examples to padded or packed batches.

Rows of different length, laid end to end in one array: a million sentences are two arrays, not a million lists.

Examples to a batch: padded to a rectangle, or packed end to end.

source x_1 .. x_m <eos>;  target <bos> y_1 .. y_n;  labels y_1 .. y_n <eos>, <pad> where there is nothing to say.
"""

from collections.abc import Iterable, Sequence
from dataclasses import dataclass
from itertools import chain
from typing import Protocol, runtime_checkable

import numpy as np
import torch
from jaxtyping import Bool, Int

from regard.contracts import BOS, EOS, PAD, Batch, PackedTokens, PaddedTokens


@dataclass(frozen=True, eq=False)
class Ragged:
    """Row i is values[offsets[i] : offsets[i + 1]]."""

    values: Int[np.ndarray, " N"]
    offsets: Int[np.ndarray, " rows_and_one"]

    @classmethod
    def of(cls, rows: Sequence[Sequence[int]]) -> "Ragged":
        """These rows."""
        lengths = np.fromiter((len(row) for row in rows), np.int64, len(rows))
        values = np.fromiter(chain.from_iterable(rows), np.int32, int(lengths.sum()))
        return cls(values, _offsets(lengths))

    def __len__(self) -> int:
        return len(self.offsets) - 1

    def row(self, index: int) -> tuple[int, ...]:
        """One row."""
        if not 0 <= index < len(self):
            raise IndexError(f"row {index} is asked for, and there are {len(self)}.")
        return tuple(self.values[self.offsets[index] : self.offsets[index + 1]].tolist())

    @property
    def lengths(self) -> Int[np.ndarray, " rows"]:
        """How long each row is."""
        return np.diff(self.offsets)

    def take(self, rows: Iterable[int]) -> "Ragged":
        """These rows, in this order."""
        chosen = np.asarray(list(rows), dtype=np.int64)
        lengths = self.offsets[chosen + 1] - self.offsets[chosen]
        offsets = _offsets(lengths)
        places = np.arange(offsets[-1]) + np.repeat(self.offsets[chosen] - offsets[:-1], lengths)
        return Ragged(self.values[places], offsets)


def _offsets(lengths: Int[np.ndarray, " rows"]) -> Int[np.ndarray, " rows_and_one"]:
    return np.concatenate([np.zeros(1, np.int64), np.cumsum(lengths)])


@runtime_checkable
class Sides(Protocol):
    """Anything with two sides of ids; the source already ends with <eos>."""

    @property
    def source(self) -> tuple[int, ...]:
        """With <eos>."""
        ...

    @property
    def target(self) -> tuple[int, ...]:
        """Without marks."""
        ...


def collate(examples: Sequence[Sides], *, packed: bool = False) -> Batch:
    """A batch of these examples, in this order."""
    source, target = ([getattr(example, side) for example in examples] for side in ("source", "target"))
    return make_batch(Ragged.of(source), Ragged.of(target), packed=packed)


def make_batch(source: Ragged, target: Ragged, *, packed: bool) -> Batch:
    """A batch of rows laid end to end."""
    read, labels = _between_marks(target)
    num_tokens = len(labels.values)
    if packed:
        says = torch.from_numpy(labels.values.astype(np.int64))
        return Batch(source=_packed(source), target=_packed(read), labels=says, num_tokens=num_tokens)
    return Batch(source=_padded(source), target=_padded(read), labels=_padded(labels).ids, num_tokens=num_tokens)


def _between_marks(target: Ragged) -> tuple[Ragged, Ragged]:
    """The same rows behind a <bos>, and before an <eos>."""
    rows = len(target)
    offsets = target.offsets + np.arange(rows + 1)
    read = np.full(len(target.values) + rows, BOS, np.int32)
    labels = np.full(len(target.values) + rows, EOS, np.int32)
    inside = np.arange(len(target.values)) + np.repeat(np.arange(rows), target.lengths)
    read[inside + 1] = target.values
    labels[inside] = target.values
    return Ragged(read, offsets), Ragged(labels, offsets)


def _padded(rows: Ragged) -> PaddedTokens:
    lengths = rows.lengths
    longest = int(lengths.max(initial=0))
    real: Bool[np.ndarray, "B L"] = np.arange(longest) < lengths[:, None]
    ids: Int[np.ndarray, "B L"] = np.full(real.shape, PAD, np.int64)
    ids[real] = rows.values
    return PaddedTokens(torch.from_numpy(ids), torch.from_numpy(lengths))


def _packed(rows: Ragged) -> PackedTokens:
    lengths = rows.lengths
    row = np.repeat(np.arange(len(rows)), lengths)
    return PackedTokens(
        ids=torch.from_numpy(rows.values.astype(np.int64)),
        cu_seqlens=torch.from_numpy(rows.offsets.copy()),
        batch_indices=torch.from_numpy(row),
        positions=torch.from_numpy(np.arange(len(row)) - rows.offsets[row]),
        max_seqlen=int(lengths.max(initial=0)),
    )
