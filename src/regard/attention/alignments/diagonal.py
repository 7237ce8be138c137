"""Fixed diagonal: look where a steady reader would be by now, whatever the words.

    p_t = t S / T (counted from 1),   weights_j proportional to exp(-(j - p_t)^2 / (2 spread^2))

Bahdanau's own first try before he let the model learn where to look, and the natural baseline for every aligner.
Dyer, Chahuneau and Smith 2013 align by it. https://aclanthology.org/N13-1073
"""

import torch
from jaxtyping import Bool, Float
from torch import Tensor, nn

from regard.attention.indices import key_steps, per_row, source_lengths, steps
from regard.contracts import Aligned, PositionInfo
from regard.kernels import masked_softmax


class Diagonal(nn.Module):
    """Ignores the scores; needs position_info.positions.

    Where the target's length T is known (position_info.target_lengths) the last word meets the last; while decoding it is not,
    and `ratio` stands for S / T.
    """

    ignores_row_constant = True
    sums_to_one = True

    def __init__(self, *, ratio: float = 1.0, spread: float = 1.0) -> None:
        super().__init__()
        if ratio <= 0 or spread <= 0:
            raise ValueError(f"Diagonal(ratio={ratio}, spread={spread}): both must be more than 0.")
        self.ratio, self.spread = ratio, spread

    def forward(
        self,
        scores: Float[Tensor, "*B Q K"],
        mask: Bool[Tensor, "..."] | None = None,
        position_info: PositionInfo | None = None,
    ) -> Aligned:
        """A bump around the diagonal, over the allowed keys."""
        step = steps(position_info, scores, "Diagonal")
        if position_info is not None and position_info.target_lengths is not None:
            slope = source_lengths(position_info, scores, mask) / per_row(
                position_info.target_lengths, scores
            ).clamp_min(1)
        else:
            slope = torch.full_like(step, self.ratio)
        distance = key_steps(position_info, scores) - ((step + 1) * slope - 1).unsqueeze(-1)
        # a key that scores -inf may not be read, here as everywhere; all else about the scores is ignored
        forbidden = scores.detach() == float("-inf")
        readable = ~forbidden if mask is None else mask & ~forbidden
        bump = (-(distance**2) / (2 * self.spread**2)).expand(scores.shape)
        return Aligned(weights=masked_softmax(bump, readable).to(scores.dtype))
