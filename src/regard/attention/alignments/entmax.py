"""Entmax: between softmax (alpha = 1) and sparsemax (alpha = 2).

    weights = argmax_p  p . s + H_alpha(p)  over distributions p, H_alpha Tsallis' entropy

Peters, Niculae and Martins 2019. https://arxiv.org/abs/1905.05702
"""

from jaxtyping import Bool, Float
from torch import Tensor, nn

from regard.attention.alignments.sparse import align_sparse, from_entmax
from regard.contracts import Aligned, Look


class Entmax(nn.Module):
    """A sparse distribution (the entmax package's); alpha = 1.5 has a closed form, others are found by bisection."""

    ignores_row_constant = True
    sums_to_one = True

    def __init__(self, *, alpha: float = 1.5) -> None:
        super().__init__()
        if alpha <= 1.0:
            raise ValueError(f"alpha is {alpha}, expected more than 1. Entmax with alpha = 1 is Softmax().")
        self.alpha = alpha
        self.closed_form = from_entmax("entmax15", "Entmax")
        self.bisect = from_entmax("entmax_bisect", "Entmax")

    def forward(
        self, scores: Float[Tensor, "*B Q K"], mask: Bool[Tensor, "..."] | None = None, look: Look | None = None
    ) -> Aligned:
        """Weights over the allowed keys; an empty row is zeros."""
        return Aligned(weights=align_sparse(scores, mask, 1.0 / (self.alpha - 1.0), self.closed_or_bisect))

    def closed_or_bisect(self, scores: Float[Tensor, "*B Q K"]) -> Float[Tensor, "*B Q K"]:
        """The exact function where the package has one."""
        return self.closed_form(scores) if self.alpha == 1.5 else self.bisect(scores, self.alpha)
