"""Dot score: how far two vectors point the same way, times their lengths.

    score(q, k) = q . k

Luong, Pham and Manning 2015, section 3.1. https://arxiv.org/abs/1508.04025
"""

from jaxtyping import Float
from torch import Tensor, nn

from regard.attention.check import check_equal_sizes
from regard.contracts import Lowered
from regard.kernels import dot_scores


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
