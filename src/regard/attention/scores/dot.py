"""Dot-product scores: dot, scaled dot and cosine.

Dot score: how far two vectors point the same way, times their lengths.

    score(q, k) = q . k

Luong, Pham and Manning 2015, section 3.1. https://arxiv.org/abs/1508.04025

Scaled dot score: the dot product at unit variance.

    score(q, k) = q . k / sqrt(d)

The dot product of independent unit-variance vectors has variance d; unscaled, softmax saturates as d grows.
Vaswani et al. 2017, section 3.2.1. https://arxiv.org/abs/1706.03762

Cosine score: direction alone, whatever the lengths.

    score(q, k) = scale * (q . k) / (|q| |k|)

Graves, Wayne and Danihelka 2014, section 3.3.1. https://arxiv.org/abs/1410.5401
A cosine lies in [-1, 1], so a softmax over it stays nearly flat; `scale` (the paper's key strength) sharpens it.
"""

import torch
from jaxtyping import Float
from torch import Tensor, nn

from regard.attention.checks import check_equal_sizes
from regard.contracts import Lowered
from regard.kernels import is_concrete
from regard.kernels.dot import dot_scores


class Dot(nn.Module):
    """No parameters; queries and keys have one size."""

    def prepare(self, keys: Float[Tensor, "... K size"]) -> Float[Tensor, "... K size"]:
        """Keys are compared as they are."""
        return keys

    def forward(
        self, queries: Float[Tensor, "*#B Q size"], keys: Float[Tensor, "*#B K key"]
    ) -> Float[Tensor, "*B Q K"]:
        """Score every query against every key."""
        check_equal_sizes(queries, keys, "Dot")
        return dot_scores(queries, keys)

    def lower(self, queries: Float[Tensor, "... Q size"], keys: Float[Tensor, "... K key"]) -> Lowered:
        """Itself."""
        check_equal_sizes(queries, keys, "Dot")
        return Lowered(queries=queries, keys=keys)


def unit_variance_scale(size: int) -> float:
    """1 / sqrt(size); vectors of size 0 score 0 whatever the scale."""
    return max(size, 1) ** -0.5


class ScaledDot(nn.Module):
    """No parameters; queries and keys have one size."""

    def prepare(self, keys: Float[Tensor, "... K size"]) -> Float[Tensor, "... K size"]:
        """Keys are compared as they are."""
        return keys

    def forward(
        self, queries: Float[Tensor, "*#B Q size"], keys: Float[Tensor, "*#B K key"]
    ) -> Float[Tensor, "*B Q K"]:
        """Score every query against every key."""
        check_equal_sizes(queries, keys, "ScaledDot")
        return dot_scores(queries, keys, unit_variance_scale(queries.shape[-1]))

    def lower(self, queries: Float[Tensor, "... Q size"], keys: Float[Tensor, "... K key"]) -> Lowered:
        """Itself."""
        check_equal_sizes(queries, keys, "ScaledDot")
        return Lowered(queries=queries, keys=keys, scale=unit_variance_scale(queries.shape[-1]))


def unit(vectors: Float[Tensor, "... size"]) -> Float[Tensor, "... size"]:
    """Vectors of length 1, however long or short they were; a zero vector stays zero."""
    wide = vectors.to(torch.promote_types(vectors.dtype, torch.float32))
    lengths = torch.linalg.vector_norm(wide, dim=-1, keepdim=True)
    if is_concrete(lengths) and is_ordinary(lengths.detach()):
        return (wide / lengths).to(vectors.dtype)
    # the largest entry as the unit of length: no square overflows or vanishes
    largest = wide.detach().abs().amax(dim=-1, keepdim=True) if wide.shape[-1] else lengths
    wide = wide / torch.where(largest > 0, largest, 1.0)
    # now at least 1, unless zero
    return (wide / torch.linalg.vector_norm(wide, dim=-1, keepdim=True).clamp(min=1.0)).to(vectors.dtype)


def is_ordinary(lengths: Float[Tensor, "..."]) -> bool:
    """Whether all lengths are such that squares neither overflowed nor vanished."""
    if lengths.numel() == 0:
        return True
    least, most = torch.aminmax(lengths)
    limit = torch.finfo(lengths.dtype).max ** 0.25
    return bool(1 / limit < least) and bool(most < limit)


class Cosine(nn.Module):
    """No parameters; queries and keys have one size."""

    def __init__(self, *, scale: float = 1.0) -> None:
        super().__init__()
        self.scale = scale

    def prepare(self, keys: Float[Tensor, "... K size"]) -> Float[Tensor, "... K size"]:
        """Normalise the keys once."""
        return unit(keys)

    def forward(
        self, queries: Float[Tensor, "*#B Q size"], keys: Float[Tensor, "*#B K key"]
    ) -> Float[Tensor, "*B Q K"]:
        """Score every query against every prepared key."""
        check_equal_sizes(queries, keys, "Cosine")
        return dot_scores(unit(queries), keys, self.scale)

    def lower(self, queries: Float[Tensor, "... Q size"], keys: Float[Tensor, "... K key"]) -> Lowered:
        """Normalise, then dot."""
        check_equal_sizes(queries, keys, "Cosine")
        return Lowered(queries=unit(queries), keys=keys, scale=self.scale)
