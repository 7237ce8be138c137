"""Local-m: source and target go hand in hand, so look around the same position.

    p_t = t,   weights = softmax over keys with |j - p_t| <= D

Luong, Pham and Manning 2015, section 3.2. https://arxiv.org/abs/1508.04025
Past the end of the source by more than D nothing is left to look at, and the weights are zeros.
"""

from jaxtyping import Bool, Float
from torch import Tensor, nn

from regard.attention.alignments.place import key_steps, steps
from regard.contracts import Aligned, Look
from regard.kernels import masked_softmax


class LocalMonotonic(nn.Module):
    """A window of `window` keys on either side of the query's own step; needs look.positions."""

    ignores_row_constant = True
    sums_to_one = True

    def __init__(self, *, window: int = 10) -> None:
        super().__init__()
        if window < 0:
            raise ValueError(f"window is {window}, expected 0 or more (the paper's D is 10).")
        self.window = window

    def forward(
        self, scores: Float[Tensor, "*B Q K"], mask: Bool[Tensor, "..."] | None = None, look: Look | None = None
    ) -> Aligned:
        """Softmax inside the window."""
        distance = key_steps(look, scores) - steps(look, scores, "LocalMonotonic").unsqueeze(-1)
        near = distance.abs() <= self.window
        return Aligned(weights=masked_softmax(scores, near if mask is None else near & mask))
