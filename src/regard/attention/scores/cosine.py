"""Cosine score: direction alone, whatever the lengths.

    score(q, k) = scale * (q . k) / (|q| |k|)

Graves, Wayne and Danihelka 2014, section 3.3.1. https://arxiv.org/abs/1410.5401
A cosine lies in [-1, 1], so a softmax over it stays nearly flat; `scale` (the paper's key strength) sharpens it.
"""

import torch
import torch.nn.functional as F
from jaxtyping import Float
from torch import Tensor, nn

from regard.attention.check import check_equal_sizes
from regard.contracts import Lowered
from regard.kernels import dot_scores


def unit(vectors: Float[Tensor, "... size"]) -> Float[Tensor, "... size"]:
    """Vectors of length 1; those shorter than the dtype can divide by stay short, and a zero vector stays zero."""
    return F.normalize(vectors, dim=-1, eps=max(1e-6, torch.finfo(vectors.dtype).tiny))


class Cosine(nn.Module):
    """No parameters; queries and keys have one size."""

    forms_scores: str | None = None

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
