"""Local attention: a window around a fixed position (local-m) or a predicted one (local-p).

    local-m   p_t = t,   weights = softmax over keys with |j - p_t| <= D
    local-p   p_t = S sigmoid(v . tanh(W s_t)),
              weights_j = softmax over |j - p_t| <= D  *  exp(-(j - p_t)^2 / (2 sigma^2)),  sigma = D / 2

Luong, Pham and Manning 2015, section 3.2. https://arxiv.org/abs/1508.04025
Local-m: more than D positions after the end of the source no key is in the window, and the weights are zeros.
Local-p: the weights are not renormalised after the Gaussian, as in the paper, so they sum to less than 1.
Positions count from 0, the paper's from 1.
"""

import torch
from jaxtyping import Bool, Float
from torch import Tensor, nn

from regard.attention.checks import check_size
from regard.attention.indices import key_steps, query_steps, source_lengths
from regard.contracts import Aligned, PositionInfo
from regard.kernels import masked_softmax


class LocalMonotonic(nn.Module):
    """A window of `window` keys on either side of the query's step; needs position_info.positions."""

    ignores_row_constant = True
    sums_to_one = True

    def __init__(self, *, window: int = 10) -> None:
        super().__init__()
        if window < 0:
            raise ValueError(f"window is {window}, expected 0 or more (the paper's D is 10).")
        self.window = window

    def extra_repr(self) -> str:
        """Settings that print shows."""
        return f"window={self.window}"

    def forward(
        self,
        scores: Float[Tensor, "*B Q K"],
        mask: Bool[Tensor, "..."] | None = None,
        position_info: PositionInfo | None = None,
    ) -> Aligned:
        """Softmax inside the window."""
        # positions of keys (K,) minus those of queries (.., Q, 1): a signed distance for every pair
        distance = key_steps(position_info, scores) - query_steps(position_info, scores, "LocalMonotonic").unsqueeze(-1)
        near = distance.abs() <= self.window
        return Aligned(weights=masked_softmax(scores, near if mask is None else near & mask))


class LocalPredictive(nn.Module):
    """A window around a position predicted from the query; the Gaussian gives the prediction its gradient."""

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

    def extra_repr(self) -> str:
        """Settings that print shows."""
        return f"query_size={self.query_size}, hidden_size={self.place.numel()}, window={self.window}"

    def reset_parameters(self) -> None:
        """Initialise the vector v as a row of nn.Linear."""
        bound = self.place.numel() ** -0.5
        nn.init.uniform_(self.place, -bound, bound)

    def forward(
        self,
        scores: Float[Tensor, "*B Q K"],
        mask: Bool[Tensor, "..."] | None = None,
        position_info: PositionInfo | None = None,
    ) -> Aligned:
        """Softmax inside the window, times the Gaussian."""
        # (.., Q, 1), to broadcast over the keys
        centre = self.predict(scores, mask, position_info).unsqueeze(-1)
        distance = key_steps(position_info, scores) - centre
        # the window itself is not differentiable
        near = distance.detach().abs() <= self.window
        # the softmax is over the window alone; the Gaussian is applied after it, without a second normalisation
        weights = masked_softmax(scores, near if mask is None else near & mask)
        # sigma = D / 2, so 2 sigma^2 = D^2 / 2; the Gaussian is computed in the float32 of the positions
        gaussian = torch.exp(-(distance**2) / (self.window**2 / 2)).to(weights.dtype)
        if mask is not None:
            # a prediction of NaN reaches no query that may attend to nothing
            gaussian = gaussian.masked_fill(~mask.any(dim=-1, keepdim=True), 0.0)
        return Aligned(weights=weights * gaussian)

    def predict(
        self, scores: Float[Tensor, "*B Q K"], mask: Bool[Tensor, "..."] | None, position_info: PositionInfo | None
    ) -> Float[Tensor, "... Q"]:
        """p_t, between 0 and the source's length."""
        if position_info is None or position_info.queries is None:
            raise ValueError(
                "LocalPredictive predicts a position from the queries, which the scores do not contain. "
                "Pass position_info=PositionInfo(queries=queries), as attend does."
            )
        check_size("queries", position_info.queries, self.query_size, f"LocalPredictive(query_size={self.query_size})")
        logits = torch.tanh(self.query_proj(position_info.queries)) @ self.place.to(position_info.queries.dtype)
        # a real number and not rounded to a key: the gradient reaches it through the distances
        return source_lengths(position_info, scores, mask) * torch.sigmoid(logits)
