"""Ragged arrays, and the collation of examples to padded or packed batches.

source  x_1 .. x_m <eos>
target  <bos> y_1 .. y_n
labels  y_1 .. y_n <eos>, with <pad> at padding positions
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
    """Rows of different lengths in one array; row i is values[offsets[i] : offsets[i + 1]].

    A million sentences are two arrays instead of a million lists.
    """

    values: Int[np.ndarray, " N"]
    offsets: Int[np.ndarray, " rows_and_one"]

    @classmethod
    def of(cls, rows: Sequence[Sequence[int]]) -> "Ragged":
        """A ragged array of lists."""
        # fromiter fills the array directly, without a list of all values
        lengths = np.fromiter((len(row) for row in rows), np.int64, len(rows))
        # int32 halves the memory of a corpus; batches are int64
        values = np.fromiter(chain.from_iterable(rows), np.int32, int(lengths.sum()))
        return cls(values, _offsets(lengths))

    def __len__(self) -> int:
        return len(self.offsets) - 1

    def row(self, index: int) -> tuple[int, ...]:
        """One row."""
        if not 0 <= index < len(self):
            raise IndexError(f"row {index} is out of range: there are {len(self)} rows.")
        return tuple(self.values[self.offsets[index] : self.offsets[index + 1]].tolist())

    @property
    def lengths(self) -> Int[np.ndarray, " rows"]:
        """The length of each row."""
        return np.diff(self.offsets)

    def take(self, rows: Iterable[int]) -> "Ragged":
        """These rows, in this order."""
        indices = np.asarray(list(rows), dtype=np.int64)
        lengths = self.offsets[indices + 1] - self.offsets[indices]
        offsets = _offsets(lengths)
        # each new position, shifted to its row in the old array: one gather instead of a loop over rows
        positions = np.arange(offsets[-1]) + np.repeat(self.offsets[indices] - offsets[:-1], lengths)
        return Ragged(self.values[positions], offsets)


def _offsets(lengths: Int[np.ndarray, " rows"]) -> Int[np.ndarray, " rows_and_one"]:
    # one more than rows: the last offset is the length of the values
    return np.concatenate([np.zeros(1, np.int64), np.cumsum(lengths)])


@runtime_checkable
class TokenPair(Protocol):
    """A source and a target as token ids; the source ends with <eos>."""

    @property
    def source(self) -> tuple[int, ...]:
        """The source with <eos>."""
        ...

    @property
    def target(self) -> tuple[int, ...]:
        """The target without <bos> and <eos>."""
        ...


def collate(examples: Sequence[TokenPair], *, packed: bool = False) -> Batch:
    """The batch of a sequence of examples."""
    source, target = ([getattr(example, side) for example in examples] for side in ("source", "target"))
    return make_batch(Ragged.of(source), Ragged.of(target), packed=packed)


def make_batch(source: Ragged, target: Ragged, *, packed: bool) -> Batch:
    """A batch of ragged sources and targets."""
    inputs, labels = _shift_targets(target)
    num_tokens = len(labels.values)
    if packed:
        label_ids = torch.from_numpy(labels.values.astype(np.int64))
        return Batch(source=_packed(source), target=_packed(inputs), labels=label_ids, num_tokens=num_tokens)
    return Batch(source=_padded(source), target=_padded(inputs), labels=_padded(labels).ids, num_tokens=num_tokens)


def _shift_targets(target: Ragged) -> tuple[Ragged, Ragged]:
    """The inputs of the decoder, <bos> y_1 .. y_n, and its labels, y_1 .. y_n <eos>."""
    rows = len(target)
    # each row has one token more, so offset r moves by r
    offsets = target.offsets + np.arange(rows + 1)
    # filled with <bos> and <eos>, of which one per row remains after the values are copied
    inputs = np.full(len(target.values) + rows, BOS, np.int32)
    labels = np.full(len(target.values) + rows, EOS, np.int32)
    # every row grows by one token, so row r moves by r positions
    positions = np.arange(len(target.values)) + np.repeat(np.arange(rows), target.lengths)
    inputs[positions + 1] = target.values
    labels[positions] = target.values
    return Ragged(inputs, offsets), Ragged(labels, offsets)


def _padded(rows: Ragged) -> PaddedTokens:
    lengths = rows.lengths
    longest = int(lengths.max(initial=0))
    # (longest) < (B, 1) -> (B, longest)
    mask: Bool[np.ndarray, "B L"] = np.arange(longest) < lengths[:, None]
    # labels are padded with the same <pad>, which the loss ignores
    ids: Int[np.ndarray, "B L"] = np.full(mask.shape, PAD, np.int64)
    # a boolean index runs over the rows in order, as the values do
    ids[mask] = rows.values
    return PaddedTokens(torch.from_numpy(ids), torch.from_numpy(lengths))


def _packed(rows: Ragged) -> PackedTokens:
    lengths = rows.lengths
    row = np.repeat(np.arange(len(rows)), lengths)
    return PackedTokens(
        ids=torch.from_numpy(rows.values.astype(np.int64)),
        # a copy: the batch must not share memory with the data of training
        cu_seqlens=torch.from_numpy(rows.offsets.copy()),
        batch_indices=torch.from_numpy(row),
        # positions start from 0 in every sequence
        positions=torch.from_numpy(np.arange(len(row)) - rows.offsets[row]),
        max_seqlen=int(lengths.max(initial=0)),
    )
