"""A batch of token sequences laid end to end: no padding is ever multiplied.

    rows "a b c", "d e"   ->   ids = a b c d e,   offsets = 0 3 5

Work that goes token by token (projections, feed-forward, the loss) runs on the packed tokens; attention asks `cells`
where each of them would stand in the padded rectangle.
"""

from dataclasses import dataclass

import torch
from jaxtyping import Int
from torch import Tensor


@dataclass(frozen=True, kw_only=True)
class Packed:
    """Token ids of all rows, where each row begins, and where each token stands; `longest` is known to the host.

    A batch may be filled up to a fixed number of tokens, so that shapes repeat: the fill belongs to the last row and
    is masked out of the loss by its labels.
    """

    ids: Int[Tensor, " N"]
    offsets: Int[Tensor, " rows_and_one"]
    rows: Int[Tensor, " N"]
    positions: Int[Tensor, " N"]
    longest: int

    @classmethod
    def of(cls, sequences: list[list[int]]) -> "Packed":
        """These rows, end to end."""
        lengths = torch.tensor([len(row) for row in sequences])
        offsets = torch.zeros(len(sequences) + 1, dtype=torch.long)
        torch.cumsum(lengths, 0, out=offsets[1:])
        rows = torch.repeat_interleave(torch.arange(len(sequences)), lengths)
        return cls(
            ids=torch.tensor([token for row in sequences for token in row], dtype=torch.long),
            offsets=offsets,
            rows=rows,
            positions=torch.arange(len(rows)) - offsets[rows],
            longest=int(lengths.max()) if sequences else 0,
        )

    @property
    def lengths(self) -> Int[Tensor, " rows"]:
        """The true length of each row."""
        return self.offsets[1:] - self.offsets[:-1]

    @property
    def cells(self) -> Int[Tensor, " N"]:
        """Where each token stands in the padded (rows, longest) rectangle, counted along its rows."""
        return self.rows * self.longest + self.positions
