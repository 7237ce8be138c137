"""Local attention: a window around a fixed or a predicted position.

Local-m: source and target go hand in hand, so look around the same position.

    p_t = t,   weights = softmax over keys with |j - p_t| <= D

Luong, Pham and Manning 2015, section 3.2. https://arxiv.org/abs/1508.04025
Past the end of the source by more than D nothing is left to look at, and the weights are zeros.

Local-p: the query predicts where to look, and a Gaussian favours keys near that place.

    p_t = S sigmoid(v . tanh(W s_t))
    weights_j = softmax over |j - p_t| <= D  *  exp(-(j - p_t)^2 / (2 sigma^2)),  sigma = D / 2

Luong, Pham and Manning 2015, section 3.2. https://arxiv.org/abs/1508.04025
Not renormalised after the Gaussian, as in the paper: rows sum to less than 1. Positions count from 0, the paper's
from 1.
"""

import torch
from jaxtyping import Bool, Float
from torch import Tensor, nn

from regard.attention.checks import check_size
from regard.attention.indices import key_steps, source_lengths, steps
from regard.contracts import Aligned, PositionInfo
from regard.kernels import masked_softmax


class LocalMonotonic(nn.Module):
    """A window of `window` keys on either side of the query's own step; needs position_info.positions."""

    ignores_row_constant = True
    sums_to_one = True

    def __init__(self, *, window: int = 10) -> None:
        super().__init__()
        if window < 0:
            raise ValueError(f"window is {window}, expected 0 or more (the paper's D is 10).")
        self.window = window

    def forward(
        self,
        scores: Float[Tensor, "*B Q K"],
        mask: Bool[Tensor, "..."] | None = None,
        position_info: PositionInfo | None = None,
    ) -> Aligned:
        """Softmax inside the window."""
        distance = key_steps(position_info, scores) - steps(position_info, scores, "LocalMonotonic").unsqueeze(-1)
        near = distance.abs() <= self.window
        return Aligned(weights=masked_softmax(scores, near if mask is None else near & mask))


class LocalPredictive(nn.Module):
    """A window around a place that moves with a gradient of its own."""

    ignores_row_constant = True
    sums_to_one = False

    def __init__(self, *, query_size: int, hidden_size: int, window: int = 10) -> None:
        super().__init__()
        if window < 1:
            raise ValueError(f"window is {window}, expected 1 or more (the paper's D is 10).")
        self.query_size, self.window = query_size, window
        self.query_proj = nn.Linear(query_size, hidden_size, bias=False)
        self.place = nn.Parameter(torch.empty(hidden_size))
        self.reset_parameters()

    def reset_parameters(self) -> None:
        """The place vector starts as a row of a linear layer does."""
        bound = self.place.numel() ** -0.5
        nn.init.uniform_(self.place, -bound, bound)

    def forward(
        self,
        scores: Float[Tensor, "*B Q K"],
        mask: Bool[Tensor, "..."] | None = None,
        position_info: PositionInfo | None = None,
    ) -> Aligned:
        """Softmax inside the window, times the Gaussian."""
        centre = self.predict(scores, mask, position_info).unsqueeze(-1)
        distance = key_steps(position_info, scores) - centre
        near = distance.detach().abs() <= self.window
        weights = masked_softmax(scores, near if mask is None else near & mask)
        return Aligned(weights=weights * torch.exp(-(distance**2) / (self.window**2 / 2)).to(weights.dtype))

    def predict(
        self, scores: Float[Tensor, "*B Q K"], mask: Bool[Tensor, "..."] | None, position_info: PositionInfo | None
    ) -> Float[Tensor, "... Q"]:
        """p_t, between 0 and the source's length."""
        if position_info is None or position_info.queries is None:
            raise ValueError(
                "LocalPredictive predicts a place from the queries, which the scores do not hold. "
                "Pass position_info=PositionInfo(queries=queries); attend does it by itself."
            )
        check_size("queries", position_info.queries, self.query_size, f"LocalPredictive(query_size={self.query_size})")
        place = torch.tanh(self.query_proj(position_info.queries)) @ self.place.to(position_info.queries.dtype)
        return source_lengths(position_info, scores, mask) * torch.sigmoid(place)
