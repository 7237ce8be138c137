"""Ratio: weights proportional to the scores, without an exponential.

    weights_j = f_j / sum_i f_i,   f = max(s, 0)

The weights of Nadaraya-Watson regression with any kernel (boxcar, Epanechnikov).
Nadaraya 1964, https://doi.org/10.1137/1109020
"""

import torch
from jaxtyping import Bool, Float
from torch import Tensor, nn

from regard.contracts import Aligned, PositionInfo


class Ratio(nn.Module):
    """For scores that are non-negative kernels; negative ones count as 0. If all scores are 0, so are the weights."""

    ignores_row_constant = False
    sums_to_one = True

    def forward(
        self,
        scores: Float[Tensor, "*B Q K"],
        mask: Bool[Tensor, "..."] | None = None,
        position_info: PositionInfo | None = None,
    ) -> Aligned:
        """Each score divided by their sum over the allowed keys."""
        # 0 and not -inf: a forbidden key must add nothing to the sum
        shares = scores if mask is None else scores.masked_fill(~mask, 0.0)
        # +inf counts as the largest finite number, since inf / inf would be NaN
        shares = shares.clamp(min=0.0, max=torch.finfo(scores.dtype).max)
        if shares.shape[-1] == 0:
            return Aligned(weights=shares)
        # a common factor cancels; with a largest share of 1 the sum cannot overflow
        # detached: a factor that cancels has no gradient
        largest = shares.amax(dim=-1, keepdim=True).detach()
        empty = largest == 0
        shares = shares / largest.masked_fill(empty, 1.0)
        # where all shares are 0 the divisor is 1, and the weights are 0 instead of NaN
        return Aligned(weights=shares / shares.sum(dim=-1, keepdim=True).masked_fill(empty, 1.0))
