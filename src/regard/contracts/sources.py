"""Sources: the protocol of a batch of inputs, padded and packed batches of token sequences, the special token ids.

A padded batch fills its sequences up to one length, on the right. A packed batch lays them end to end, without padding:

    "a b c", "d e"   ->   ids = a b c d e,   cu_seqlens = 0 3 5

Computations on single tokens (projections, feed-forward, the loss) run on the packed tokens; attention needs `cells`,
the positions of the tokens in the padded rectangle.
"""

from dataclasses import dataclass
from typing import Protocol, runtime_checkable

import torch
from jaxtyping import Bool, Int
from torch import Tensor

from regard.contracts.pytree import map_tensors

PAD, BOS, EOS, UNK = range(4)
"""Padding; the beginning of a target; the end of a sentence; a token that is not in the vocabulary.

Every vocabulary begins with these four.
"""

SPECIAL_TOKENS = ("<pad>", "<bos>", "<eos>", "<unk>")
"""Their spelling, in the order of their ids."""


@runtime_checkable
class Source(Protocol):
    """A batch of inputs of any kind: token sequences, audio frames, images.

    Its tensors are batch-first. Decoding uses these three members and passes the source to `Model.encode`.
    """

    @property
    def lengths(self) -> Int[Tensor, " B"]:
        """The number of keys of each example: tokens, frames, cells of a grid."""
        ...

    @property
    def device(self) -> torch.device:
        """The device of the tensors."""
        ...

    def to(self, device: torch.device | str) -> "Source":
        """The same source on a device."""
        ...


@dataclass(frozen=True)
class PaddedTokens:
    """Token ids and the true length of each row; what lies past a length is padding and means nothing."""

    ids: Int[Tensor, "B L"]
    lengths: Int[Tensor, " B"]

    @classmethod
    def from_lists(cls, rows: list[list[int]]) -> "PaddedTokens":
        """These rows, filled up with <pad> to the max_seqlen."""
        lengths = torch.tensor([len(row) for row in rows], dtype=torch.long)
        max_seqlen = int(lengths.max()) if rows else 0
        ids = torch.full((len(rows), max_seqlen), PAD, dtype=torch.long)
        for place, row in enumerate(rows):
            ids[place, : len(row)] = torch.tensor(row, dtype=torch.long)
        return cls(ids, lengths)

    @property
    def device(self) -> torch.device:
        """The device of the ids."""
        return self.ids.device

    def to(self, device: torch.device | str) -> "PaddedTokens":
        """The same batch on a device."""
        return map_tensors(lambda tensor: tensor.to(device), self)

    @property
    def mask(self) -> Bool[Tensor, "B L"]:
        """True where a token is real."""
        return torch.arange(self.ids.shape[1], device=self.ids.device) < self.lengths[:, None]


@dataclass(frozen=True, kw_only=True)
class PackedTokens:
    """Token ids of all rows, where each row begins, and where each token stands; `max_seqlen` is known to the host.

    A batch may be filled up with rows of <pad>, and with empty rows, so that shapes repeat from batch to batch; their
    labels, <pad> as well, keep them out of the loss.
    """

    ids: Int[Tensor, " N"]
    cu_seqlens: Int[Tensor, " rows_and_one"]
    rows: Int[Tensor, " N"]
    positions: Int[Tensor, " N"]
    max_seqlen: int

    @classmethod
    def from_lists(cls, sequences: list[list[int]]) -> "PackedTokens":
        """These rows, end to end."""
        lengths = torch.tensor([len(row) for row in sequences], dtype=torch.long)
        cu_seqlens = torch.zeros(len(sequences) + 1, dtype=torch.long)
        torch.cumsum(lengths, 0, out=cu_seqlens[1:])
        rows = torch.repeat_interleave(torch.arange(len(sequences)), lengths)
        return cls(
            ids=torch.tensor([token for row in sequences for token in row], dtype=torch.long),
            cu_seqlens=cu_seqlens,
            rows=rows,
            positions=torch.arange(len(rows)) - cu_seqlens[rows],
            max_seqlen=int(lengths.max()) if sequences else 0,
        )

    def fill(self, *, num_rows: int, num_tokens: int, max_seqlen: int) -> "PackedTokens":
        """The same rows in a batch of this shape: rows of <pad> behind them, then empty ones."""
        missing = num_tokens - self.ids.shape[0]
        added = num_rows - (self.cu_seqlens.shape[0] - 1)
        if missing < 0 or max_seqlen < self.max_seqlen or added * max_seqlen < missing:
            raise ValueError(
                f"{self.cu_seqlens.shape[0] - 1} rows of {self.ids.shape[0]} tokens, the max_seqlen {self.max_seqlen}, do not "
                f"fit into {num_rows} rows of {num_tokens} tokens, the max_seqlen {max_seqlen}. Allow for more."
            )
        ends = (torch.arange(1, added + 1) * max_seqlen).clamp_max(missing)
        extra = torch.arange(missing)
        return PackedTokens(
            ids=torch.cat([self.ids, torch.full((missing,), PAD)]),
            cu_seqlens=torch.cat([self.cu_seqlens, self.cu_seqlens[-1] + ends]),
            rows=torch.cat([self.rows, self.cu_seqlens.shape[0] - 1 + extra // max_seqlen]),
            positions=torch.cat([self.positions, extra % max_seqlen]),
            max_seqlen=max_seqlen,
        )

    @property
    def device(self) -> torch.device:
        """The device of the ids."""
        return self.ids.device

    def to(self, device: torch.device | str) -> "PackedTokens":
        """The same batch on a device."""
        return map_tensors(lambda tensor: tensor.to(device), self)

    @property
    def lengths(self) -> Int[Tensor, " rows"]:
        """The true length of each row."""
        return self.cu_seqlens[1:] - self.cu_seqlens[:-1]

    @property
    def mask(self) -> Bool[Tensor, "rows max_seqlen"]:
        """True where the padded rectangle holds a token."""
        return torch.arange(self.max_seqlen, device=self.ids.device) < self.lengths[:, None]

    @property
    def padded_indices(self) -> Int[Tensor, " N"]:
        """Where each token stands in the padded (rows, max_seqlen) rectangle, counted along its rows."""
        return self.rows * self.max_seqlen + self.positions

    @property
    def tokens(self) -> Int[Tensor, " cells"]:
        """The other way round: which token each cell of the rectangle holds, N where it holds none."""
        places = self.cu_seqlens[:-1, None] + torch.arange(self.max_seqlen, device=self.ids.device)
        return torch.where(self.mask, places, self.ids.shape[0]).flatten()
