"""Sources: padded and packed batches of token sequences, and the special token ids.

Four marks that every vocabulary begins with, so that data, models, search and training agree without asking.

A batch of token sequences, padded on the right.

A batch of token sequences laid end to end: no padding is ever multiplied.

    rows "a b c", "d e"   ->   ids = a b c d e,   offsets = 0 3 5

Work that goes token by token (projections, feed-forward, the loss) runs on the packed tokens; attention asks `cells`
where each of them would stand in the padded rectangle.
"""

from dataclasses import dataclass

import torch
from jaxtyping import Bool, Int
from torch import Tensor

PAD, BOS, EOS, UNK = range(4)
"""Nothing here; a target begins; a sentence ends; a token the vocabulary does not know."""

SPECIAL_TOKENS = ("<pad>", "<bos>", "<eos>", "<unk>")
"""As they are spelled, in the order of their ids."""


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


@dataclass(frozen=True, kw_only=True)
class Packed:
    """Token ids of all rows, where each row begins, and where each token stands; `longest` is known to the host.

    A batch may be filled up with rows of <pad>, and with empty rows, so that shapes repeat from batch to batch; their
    labels, <pad> as well, keep them out of the loss.
    """

    ids: Int[Tensor, " N"]
    offsets: Int[Tensor, " rows_and_one"]
    rows: Int[Tensor, " N"]
    positions: Int[Tensor, " N"]
    longest: int

    @classmethod
    def of(cls, sequences: list[list[int]]) -> "Packed":
        """These rows, end to end."""
        lengths = torch.tensor([len(row) for row in sequences], dtype=torch.long)
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

    def fill(self, *, num_rows: int, num_tokens: int, longest: int) -> "Packed":
        """The same rows in a batch of this shape: rows of <pad> behind them, then empty ones."""
        missing = num_tokens - self.ids.shape[0]
        added = num_rows - (self.offsets.shape[0] - 1)
        if missing < 0 or longest < self.longest or added * longest < missing:
            raise ValueError(
                f"{self.offsets.shape[0] - 1} rows of {self.ids.shape[0]} tokens, the longest {self.longest}, do not "
                f"fit into {num_rows} rows of {num_tokens} tokens, the longest {longest}. Allow for more."
            )
        ends = (torch.arange(1, added + 1) * longest).clamp_max(missing)
        extra = torch.arange(missing)
        return Packed(
            ids=torch.cat([self.ids, torch.full((missing,), PAD)]),
            offsets=torch.cat([self.offsets, self.offsets[-1] + ends]),
            rows=torch.cat([self.rows, self.offsets.shape[0] - 1 + extra // longest]),
            positions=torch.cat([self.positions, extra % longest]),
            longest=longest,
        )

    @property
    def lengths(self) -> Int[Tensor, " rows"]:
        """The true length of each row."""
        return self.offsets[1:] - self.offsets[:-1]

    @property
    def mask(self) -> Bool[Tensor, "rows longest"]:
        """True where the padded rectangle holds a token."""
        return torch.arange(self.longest, device=self.ids.device) < self.lengths[:, None]

    @property
    def cells(self) -> Int[Tensor, " N"]:
        """Where each token stands in the padded (rows, longest) rectangle, counted along its rows."""
        return self.rows * self.longest + self.positions

    @property
    def tokens(self) -> Int[Tensor, " cells"]:
        """The other way round: which token each cell of the rectangle holds, N where it holds none."""
        places = self.offsets[:-1, None] + torch.arange(self.longest, device=self.ids.device)
        return torch.where(self.mask, places, self.ids.shape[0]).flatten()
