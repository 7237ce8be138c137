"""A batch of token sequences, padded on the right."""

from dataclasses import dataclass

import torch
from jaxtyping import Bool, Int
from torch import Tensor

from regard.contracts.tokens import PAD


@dataclass(frozen=True)
class Sequences:
    """Token ids and the true length of each row; what lies past a length is padding and means nothing."""

    ids: Int[Tensor, "B L"]
    lengths: Int[Tensor, " B"]

    @classmethod
    def of(cls, rows: list[list[int]]) -> "Sequences":
        """These rows, filled up with <pad> to the longest."""
        lengths = torch.tensor([len(row) for row in rows], dtype=torch.long)
        longest = int(lengths.max()) if rows else 0
        ids = torch.full((len(rows), longest), PAD, dtype=torch.long)
        for place, row in enumerate(rows):
            ids[place, : len(row)] = torch.tensor(row, dtype=torch.long)
        return cls(ids, lengths)

    @property
    def mask(self) -> Bool[Tensor, "B L"]:
        """True where a token is real."""
        return torch.arange(self.ids.shape[1], device=self.ids.device) < self.lengths[:, None]
