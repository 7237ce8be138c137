"""Fixed diagonal: weights around the position of a constant pace, independent of the scores.

    p_t = t S / T (counted from 1),   weights_j proportional to exp(-(j - p_t)^2 / (2 spread^2))

A baseline for learned alignments. Dyer, Chahuneau and Smith 2013 align by it. https://aclanthology.org/N13-1073
"""

import torch
from jaxtyping import Bool, Float
from torch import Tensor, nn

from regard.attention.alignments.fixed import fixed_weights
from regard.attention.indices import key_steps, per_query_lengths, query_steps, source_lengths
from regard.contracts import Aligned, PositionInfo


class Diagonal(nn.Module):
    """Ignores finite scores; needs position_info.positions.

    If the target's length T is known (position_info.target_lengths), the last query is at the last key. While decoding
    it is not, and `ratio` is used for S / T.
    """

    ignores_row_constant = True
    sums_to_one = True

    def __init__(self, *, ratio: float = 1.0, spread: float = 1.0) -> None:
        super().__init__()
        if ratio <= 0 or spread <= 0:
            raise ValueError(f"Diagonal(ratio={ratio}, spread={spread}): both must be more than 0.")
        self.ratio, self.spread = ratio, spread

    def extra_repr(self) -> str:
        """Settings that print shows."""
        return f"ratio={self.ratio}, spread={self.spread}"

    def forward(
        self,
        scores: Float[Tensor, "*B Q K"],
        mask: Bool[Tensor, "..."] | None = None,
        position_info: PositionInfo | None = None,
    ) -> Aligned:
        """A Gaussian around the diagonal, normalised over the allowed keys."""
        step = query_steps(position_info, scores, "Diagonal")
        # S / T per query, to broadcast against (.., Q); an empty target counts as length 1: no division by 0
        if position_info is not None and position_info.target_lengths is not None:
            slope = source_lengths(position_info, scores, mask) / per_query_lengths(
                position_info.target_lengths, scores
            ).clamp_min(1)
        else:
            slope = torch.full_like(step, self.ratio)
        # the formula counts from 1 and the tensors from 0, hence step + 1 and - 1; the distances are (.., Q, K)
        distance = key_steps(position_info, scores) - ((step + 1) * slope - 1).unsqueeze(-1)
        return fixed_weights(-(distance**2) / (2 * self.spread**2), scores, mask)
