"""Token sources: padded and packed batches of token sequences, and the special token ids.

A padded batch is a rectangle with <pad> on the right. A packed batch has its sequences end to end, without padding:

    sequences "a b c", "d e"   ->   ids = a b c d e,   cu_seqlens = 0 3 5

What is computed token by token (projections, feed-forward layers, the loss) runs on the packed tokens. Where a
rectangle is needed, `padded_indices` gives the position of each token in it, and `packed_indices` the inverse.

Shapes: B sequences, L longest sequence, N tokens of all sequences.
"""

from dataclasses import dataclass
from typing import Protocol, runtime_checkable

import torch
import torch.nn.functional as F
from jaxtyping import Bool, Int
from torch import Tensor

from regard.contracts.pytree import map_tensors, register_pytree

# the order is relied on: searches leave out <pad> and <bos> by slicing off the first two columns
PAD, BOS, EOS, UNK = range(4)
"""Ids of padding, the beginning and the end of a sequence, and unknown tokens, in every vocabulary."""

SPECIAL_TOKENS = ("<pad>", "<bos>", "<eos>", "<unk>")
"""Their text, in the order of their ids."""


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


@register_pytree
@dataclass(frozen=True)
class PaddedTokens:
    """Token ids and the length of each sequence; ids at and after a length are padding."""

    ids: Int[Tensor, "B L"]
    lengths: Int[Tensor, " B"]

    @classmethod
    def from_lists(cls, sequences: list[list[int]]) -> "PaddedTokens":
        """Pad sequences of different lengths with <pad>."""
        # the dtype is given, since an empty list would become float32
        lengths = torch.tensor([len(sequence) for sequence in sequences], dtype=torch.long)
        # default=0: an empty batch is (0, 0)
        ids = torch.full((len(sequences), max(map(len, sequences), default=0)), PAD, dtype=torch.long)
        for index, sequence in enumerate(sequences):
            ids[index, : len(sequence)] = torch.tensor(sequence, dtype=torch.long)
        return cls(ids, lengths)

    def pad_to(self, *, length: int, batch_size: int = 0) -> "PaddedTokens":
        """The batch padded to at least this length, with sequences of one <pad> up to at least this batch size."""
        missing = max(length - self.ids.shape[1], 0)
        added = max(batch_size - self.ids.shape[0], 0)
        if not missing and not added:
            return self
        # `pad` takes the last dimension first; added sequences have a length of 1, because not every model accepts 0
        ids = F.pad(self.ids, (0, missing, 0, added), value=PAD)
        return PaddedTokens(ids, F.pad(self.lengths, (0, added), value=1))

    @property
    def device(self) -> torch.device:
        """The device of the ids."""
        return self.ids.device

    def to(self, device: torch.device | str) -> "PaddedTokens":
        """The same batch on a device."""
        return map_tensors(lambda tensor: tensor.to(device), self)

    @property
    def mask(self) -> Bool[Tensor, "B L"]:
        """True at tokens, False at padding."""
        # (L,) against (B, 1)
        return torch.arange(self.ids.shape[1], device=self.ids.device) < self.lengths[:, None]


@register_pytree
@dataclass(frozen=True, kw_only=True)
class PackedTokens:
    """Token ids of all sequences end to end, where each sequence begins, and the sequence and position of each token.

    `max_seqlen` is a Python number, so that shapes are known without a synchronisation. A batch may have sequences of
    <pad> and empty sequences at its end, added by `pad_to`; their labels are <pad>, which the loss ignores.
    """

    ids: Int[Tensor, " N"]
    cu_seqlens: Int[Tensor, " B_plus_1"]
    batch_indices: Int[Tensor, " N"]
    positions: Int[Tensor, " N"]
    max_seqlen: int

    @classmethod
    def from_lists(cls, sequences: list[list[int]]) -> "PackedTokens":
        """Join sequences end to end."""
        lengths = torch.tensor([len(sequence) for sequence in sequences], dtype=torch.long)
        cu_seqlens = torch.zeros(len(sequences) + 1, dtype=torch.long)
        # the first entry stays 0
        torch.cumsum(lengths, 0, out=cu_seqlens[1:])
        batch_indices = torch.repeat_interleave(torch.arange(len(sequences)), lengths)
        return cls(
            ids=torch.tensor([token for sequence in sequences for token in sequence], dtype=torch.long),
            cu_seqlens=cu_seqlens,
            batch_indices=batch_indices,
            # the index in the whole batch minus the start of the token's sequence
            positions=torch.arange(len(batch_indices)) - cu_seqlens[batch_indices],
            max_seqlen=max(map(len, sequences), default=0),
        )

    def pad_to(self, *, batch_size: int, num_tokens: int, max_seqlen: int) -> "PackedTokens":
        """The batch with sequences of <pad>, then empty ones, appended, so that batches have equal shapes."""
        old_size = self.cu_seqlens.shape[0] - 1
        missing = num_tokens - self.ids.shape[0]
        added = batch_size - old_size
        # the new sequences hold the missing tokens, and none may be longer than max_seqlen
        if missing < 0 or max_seqlen < self.max_seqlen or added * max_seqlen < missing:
            raise ValueError(
                f"{old_size} sequences of {self.ids.shape[0]} tokens, the longest of {self.max_seqlen}, do not fit "
                f"into {batch_size} sequences of {num_tokens} tokens, the longest of {max_seqlen}. Increase the shape."
            )
        # the padding fills whole sequences first; those after it are empty
        ends = (torch.arange(1, added + 1) * max_seqlen).clamp_max(missing)
        padding = torch.arange(missing)
        return PackedTokens(
            ids=torch.cat([self.ids, torch.full((missing,), PAD)]),
            cu_seqlens=torch.cat([self.cu_seqlens, self.cu_seqlens[-1] + ends]),
            # all of the new sequences but the last one with tokens are full, so division gives sequence and position
            batch_indices=torch.cat([self.batch_indices, old_size + padding // max_seqlen]),
            positions=torch.cat([self.positions, padding % max_seqlen]),
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
    def lengths(self) -> Int[Tensor, " B"]:
        """Number of tokens of each sequence."""
        return self.cu_seqlens[1:] - self.cu_seqlens[:-1]

    @property
    def mask(self) -> Bool[Tensor, "B max_seqlen"]:
        """True where the padded rectangle has a token."""
        return torch.arange(self.max_seqlen, device=self.ids.device) < self.lengths[:, None]

    @property
    def padded_indices(self) -> Int[Tensor, " N"]:
        """Index of each token in the flattened (B, max_seqlen) rectangle."""
        return self.batch_indices * self.max_seqlen + self.positions

    @property
    def packed_indices(self) -> Int[Tensor, " cells"]:
        """Index of the token at each position of the flattened rectangle; N at padding."""
        # (B, 1) + (max_seqlen,); past the end of a sequence these are tokens of the next one, which the mask replaces
        indices = self.cu_seqlens[:-1, None] + torch.arange(self.max_seqlen, device=self.ids.device)
        return torch.where(self.mask, indices, self.ids.shape[0]).flatten()
