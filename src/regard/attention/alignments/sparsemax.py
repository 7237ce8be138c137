"""Sparsemax: the nearest point of the simplex; most keys get exactly nothing.

    weights = argmin_p |p - s|^2  over distributions p

Martins and Astudillo 2016. https://arxiv.org/abs/1602.02068
"""

from jaxtyping import Bool, Float
from torch import Tensor, nn

from regard.attention.alignments.sparse import align_sparse, from_entmax
from regard.contracts import Aligned, Look


class Sparsemax(nn.Module):
    """A sparse distribution (the entmax package's)."""

    ignores_row_constant = True
    sums_to_one = True

    def __init__(self) -> None:
        super().__init__()
        self.function = from_entmax("sparsemax", "Sparsemax")

    def forward(
        self, scores: Float[Tensor, "*B Q K"], mask: Bool[Tensor, "..."] | None = None, look: Look | None = None
    ) -> Aligned:
        """Weights over the allowed keys; an empty row is zeros."""
        return Aligned(weights=align_sparse(scores, mask, 1.0, self.function))
