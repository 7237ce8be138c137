"""Scaled dot score: the dot product at unit variance.

    score(q, k) = q . k / sqrt(d)

The dot product of independent unit-variance vectors has variance d; unscaled, softmax saturates as d grows.
Vaswani et al. 2017, section 3.2.1. https://arxiv.org/abs/1706.03762
"""

from jaxtyping import Float
from torch import Tensor, nn

from regard.attention.check import check_equal_sizes
from regard.contracts import Lowered
from regard.kernels import dot_scores


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
