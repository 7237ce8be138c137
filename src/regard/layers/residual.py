"""Residual connection and layer norm around a sub-layer: post-norm and pre-norm.

post: norm(x + f(x))        Vaswani et al. 2017, section 3.1. https://arxiv.org/abs/1706.03762
pre:  x + f(norm(x))        Xiong et al. 2020. https://arxiv.org/abs/2002.04745
"""

from collections.abc import Callable

from jaxtyping import Float
from torch import Tensor, nn


class PostNorm(nn.Module):
    """Post-norm, as in the original Transformer; gradients pass through every norm, so training needs a warm-up."""

    def __init__(self, *, hidden_size: int, dropout: float = 0.0) -> None:
        super().__init__()
        self.norm = nn.LayerNorm(hidden_size)
        self.dropout = nn.Dropout(dropout)

    def forward(
        self, states: Float[Tensor, "*B size"], sublayer: Callable[[Tensor], Tensor]
    ) -> Float[Tensor, "*B size"]:
        """Add the output of the sub-layer, then normalise."""
        # dropout before the sum: the residual path is never dropped
        return self.norm(states + self.dropout(sublayer(states)))


class PreNorm(nn.Module):
    """Pre-norm; the residual path has no norm, so the stack needs one at its top."""

    def __init__(self, *, hidden_size: int, dropout: float = 0.0) -> None:
        super().__init__()
        self.norm = nn.LayerNorm(hidden_size)
        self.dropout = nn.Dropout(dropout)

    def forward(
        self, states: Float[Tensor, "*B size"], sublayer: Callable[[Tensor], Tensor]
    ) -> Float[Tensor, "*B size"]:
        """Normalise the input of the sub-layer, and add its output."""
        return states + self.dropout(sublayer(self.norm(states)))


NORMS: dict[str, type[PostNorm] | type[PreNorm]] = {"post": PostNorm, "pre": PreNorm}
"""Norm orders by name."""
