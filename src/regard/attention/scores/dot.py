"""Dot-product scores: dot, scaled dot and cosine.

    Dot         score(q, k) = q . k
    ScaledDot   score(q, k) = q . k / sqrt(d)
    Cosine      score(q, k) = scale * (q . k) / (|q| |k|)

Dot: Luong, Pham and Manning 2015, section 3.1. https://arxiv.org/abs/1508.04025
ScaledDot: Vaswani et al. 2017, section 3.2.1. https://arxiv.org/abs/1706.03762
The dot product of independent vectors of unit variance has variance d; unscaled, softmax saturates as d grows.
Cosine: Graves, Wayne and Danihelka 2014, section 3.3.1. https://arxiv.org/abs/1410.5401
A cosine lies in [-1, 1], so a softmax over it is nearly uniform; `scale` (the paper's key strength) sharpens it.
"""

import torch
from jaxtyping import Float
from torch import Tensor, nn

from regard.attention.checks import check_equal_sizes
from regard.contracts import Lowered
from regard.kernels import is_concrete
from regard.kernels.dot import dot_scores


class Dot(nn.Module):
    """Dot product of queries and keys of equal size; no parameters."""

    def prepare(self, keys: Float[Tensor, "... K size"]) -> Float[Tensor, "... K size"]:
        """The keys themselves."""
        return keys

    def forward(
        self, queries: Float[Tensor, "*#B Q size"], keys: Float[Tensor, "*#B K key"]
    ) -> Float[Tensor, "*B Q K"]:
        """Score every query against every key."""
        check_equal_sizes(queries, keys, "Dot")
        return dot_scores(queries, keys)

    def lower(self, queries: Float[Tensor, "... Q size"], keys: Float[Tensor, "... K key"]) -> Lowered:
        """The dot product itself."""
        check_equal_sizes(queries, keys, "Dot")
        return Lowered(queries=queries, keys=keys)


def unit_variance_scale(size: int) -> float:
    """1 / sqrt(size); 1 for vectors of size 0, whose scores are 0."""
    return max(size, 1) ** -0.5


class ScaledDot(nn.Module):
    """Dot product divided by the root of the size; no parameters."""

    def prepare(self, keys: Float[Tensor, "... K size"]) -> Float[Tensor, "... K size"]:
        """The keys themselves."""
        return keys

    def forward(
        self, queries: Float[Tensor, "*#B Q size"], keys: Float[Tensor, "*#B K key"]
    ) -> Float[Tensor, "*B Q K"]:
        """Score every query against every key."""
        check_equal_sizes(queries, keys, "ScaledDot")
        return dot_scores(queries, keys, unit_variance_scale(queries.shape[-1]))

    def lower(self, queries: Float[Tensor, "... Q size"], keys: Float[Tensor, "... K key"]) -> Lowered:
        """The dot product and its scale."""
        check_equal_sizes(queries, keys, "ScaledDot")
        return Lowered(queries=queries, keys=keys, scale=unit_variance_scale(queries.shape[-1]))


def normalised(vectors: Float[Tensor, "... size"]) -> Float[Tensor, "... size"]:
    """Vectors of norm 1, without overflow or underflow; a zero vector stays zero."""
    wide = vectors.to(torch.promote_types(vectors.dtype, torch.float32))
    norms = torch.linalg.vector_norm(wide, dim=-1, keepdim=True)
    # the common case in one division; it reads the norms on the host, so it is for CPU tensors alone
    if is_concrete(norms) and are_accurate(norms.detach()):
        return (wide / norms).to(vectors.dtype)
    # divided by their largest entry, no square overflows or underflows
    # amax over no features would raise
    largest = wide.detach().abs().amax(dim=-1, keepdim=True) if wide.shape[-1] else norms
    wide = wide / torch.where(largest > 0, largest, 1.0)
    # the norm is now at least 1, or 0
    return (wide / torch.linalg.vector_norm(wide, dim=-1, keepdim=True).clamp(min=1.0)).to(vectors.dtype)


def are_accurate(norms: Float[Tensor, "..."]) -> bool:
    """True if all norms lie where the squares in them neither overflow nor underflow."""
    if norms.numel() == 0:
        return True
    low, high = torch.aminmax(norms)
    # squares up to the root of the largest number, which leaves room for their sum over the features
    limit = torch.finfo(norms.dtype).max ** 0.25
    # a norm of 0 or NaN fails a comparison and takes the general path
    return bool(1 / limit < low) and bool(high < limit)


class Cosine(nn.Module):
    """Cosine of the angle between query and key, times `scale`; no parameters."""

    def __init__(self, *, scale: float = 1.0) -> None:
        super().__init__()
        self.scale = scale

    def extra_repr(self) -> str:
        """Settings that print shows."""
        return f"scale={self.scale}"

    def prepare(self, keys: Float[Tensor, "... K size"]) -> Float[Tensor, "... K size"]:
        """Normalise the keys once."""
        return normalised(keys)

    def forward(
        self, queries: Float[Tensor, "*#B Q size"], keys: Float[Tensor, "*#B K key"]
    ) -> Float[Tensor, "*B Q K"]:
        """Score every query against every prepared key."""
        check_equal_sizes(queries, keys, "Cosine")
        # prepared keys are normalised already
        return dot_scores(normalised(queries), keys, self.scale)

    def lower(self, queries: Float[Tensor, "... Q size"], keys: Float[Tensor, "... K key"]) -> Lowered:
        """The dot product of normalised queries and keys, and the scale."""
        check_equal_sizes(queries, keys, "Cosine")
        return Lowered(queries=normalised(queries), keys=keys, scale=self.scale)
