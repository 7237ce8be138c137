"""Softmax: positive weights that sum to 1.

    weights_j = exp(s_j) / sum_i exp(s_i)

Bridle 1990, https://doi.org/10.1007/978-3-642-76153-9_28; in attention Bahdanau, Cho and Bengio 2015.
"""

from jaxtyping import Bool, Float
from torch import Tensor, nn

from regard.contracts import Aligned, PositionInfo
from regard.kernels import masked_softmax


class Softmax(nn.Module):
    """A dense distribution; the only alignment of fused kernels."""

    ignores_row_constant = True
    sums_to_one = True

    def forward(
        self,
        scores: Float[Tensor, "*B Q K"],
        mask: Bool[Tensor, "..."] | None = None,
        position_info: PositionInfo | None = None,
    ) -> Aligned:
        """Weights over the allowed keys; zeros for a query without any."""
        return Aligned(weights=masked_softmax(scores, mask))
