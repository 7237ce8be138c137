"""Ratio: scores are themselves the shares, no exponential.

    weights_j = f_j / sum_i f_i,   f = max(s, 0)

The weights of Nadaraya-Watson regression with any kernel (boxcar, Epanechnikov).
Nadaraya 1964, https://doi.org/10.1137/1109020
"""

import torch
from jaxtyping import Bool, Float
from torch import Tensor, nn

from regard.contracts import Aligned, PositionInfo


class Ratio(nn.Module):
    """For scores that are kernels: not negative (a negative one counts as 0). A row whose scores are all 0 is zeros."""

    ignores_row_constant = False
    sums_to_one = True

    def forward(
        self,
        scores: Float[Tensor, "*B Q K"],
        mask: Bool[Tensor, "..."] | None = None,
        position_info: PositionInfo | None = None,
    ) -> Aligned:
        """Each key's share of the row."""
        shares = scores if mask is None else scores.masked_fill(~mask, 0.0)
        shares = shares.clamp(min=0.0, max=torch.finfo(scores.dtype).max)
        if shares.shape[-1] == 0:
            return Aligned(weights=shares)
        # shares do not change with their common scale; at most 1 each, they cannot overflow when summed
        largest = shares.amax(dim=-1, keepdim=True).detach()
        empty = largest == 0
        shares = shares / largest.masked_fill(empty, 1.0)
        return Aligned(weights=shares / shares.sum(dim=-1, keepdim=True).masked_fill(empty, 1.0))
