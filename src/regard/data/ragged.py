"""Rows of different length, laid end to end in one array: a million sentences are two arrays, not a million lists."""

from collections.abc import Iterable, Sequence
from dataclasses import dataclass
from itertools import chain

import numpy as np
from jaxtyping import Int


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
