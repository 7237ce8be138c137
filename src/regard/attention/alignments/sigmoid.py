"""Sigmoid: every key is judged on its own, and nothing has to sum to one.

    weights_j = 1 / (1 + exp(-(s_j + bias)))

Ramapuram et al. 2024. https://arxiv.org/abs/2409.04431
The paper starts at bias = -log(number of keys), so that a row begins near sum 1: pass it for long texts.
"""

import torch
from jaxtyping import Bool, Float
from torch import Tensor, nn

from regard.contracts import Aligned, PositionInfo


class Sigmoid(nn.Module):
    """Independent gates; a constant added to a row changes the answer."""

    ignores_row_constant = False
    sums_to_one = False

    def __init__(self, *, bias: float = 0.0) -> None:
        super().__init__()
        self.bias = bias

    def forward(
        self,
        scores: Float[Tensor, "*B Q K"],
        mask: Bool[Tensor, "..."] | None = None,
        position_info: PositionInfo | None = None,
    ) -> Aligned:
        """A gate for every allowed key."""
        weights = torch.sigmoid(scores + self.bias)
        return Aligned(weights=weights if mask is None else weights.masked_fill(~mask, 0.0))
