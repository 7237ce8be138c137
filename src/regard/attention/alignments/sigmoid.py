"""Sigmoid: each weight depends on its own score alone, and weights need not sum to 1.

    weights_j = 1 / (1 + exp(-(s_j + bias)))

Ramapuram et al. 2024. https://arxiv.org/abs/2409.04431
The paper sets bias = -log(number of keys), so that weights initially sum to about 1; use it for long texts.
"""

import torch
from jaxtyping import Bool, Float
from torch import Tensor, nn

from regard.contracts import Aligned, PositionInfo


class Sigmoid(nn.Module):
    """Independent gates, which depend on a constant added to all scores."""

    ignores_row_constant = False
    sums_to_one = False

    def __init__(self, *, bias: float = 0.0) -> None:
        super().__init__()
        self.bias = bias

    def extra_repr(self) -> str:
        """Settings that print shows."""
        return f"bias={self.bias}"

    def forward(
        self,
        scores: Float[Tensor, "*B Q K"],
        mask: Bool[Tensor, "..."] | None = None,
        position_info: PositionInfo | None = None,
    ) -> Aligned:
        """A gate per key, 0 where not allowed."""
        # a score of -inf needs no mask: its sigmoid is 0
        weights = torch.sigmoid(scores + self.bias)
        # masked_fill and not a product with the mask: 0 * NaN would be NaN at a forbidden key
        return Aligned(weights=weights if mask is None else weights.masked_fill(~mask, 0.0))
