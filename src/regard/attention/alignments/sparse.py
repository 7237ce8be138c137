"""Sparse alignments: sparsemax and entmax, by the entmax package.

What sparsemax and entmax share: the entmax package's functions, guarded.

Those functions raise on a row with nothing allowed and lose digits far from 0. Both maps ignore a constant added to a
row and give exactly 0 to a score more than `reach` below the best, so each row is shifted to have its best at 0 and
what is forbidden or out of reach is put past that distance.

Sparsemax: the nearest point of the simplex; most keys get exactly nothing.

    weights = argmin_p |p - s|^2  over distributions p

Martins and Astudillo 2016. https://arxiv.org/abs/1602.02068

Entmax: between softmax (alpha = 1) and sparsemax (alpha = 2).

    weights = argmax_p  p . s + H_alpha(p)  over distributions p, H_alpha Tsallis' entropy

Peters, Niculae and Martins 2019. https://arxiv.org/abs/1905.05702
"""

from collections.abc import Callable

import torch
from jaxtyping import Bool, Float
from torch import Tensor, nn

from regard.contracts import Aligned, PositionInfo


def from_entmax(name: str, user: str) -> Callable[..., Tensor]:
    """A function of the entmax package, which is named in the error of the one thing that needs it."""
    try:
        import entmax
    except ImportError:
        raise ImportError(f"{user} needs the entmax package. Install it with: pip install entmax") from None
    # torch.compile cannot read the package's autograd functions; this has it call them as they are
    function: Callable[..., Tensor] = torch.compiler.allow_in_graph(getattr(entmax, name))
    return function


def align_sparse(
    scores: Float[Tensor, "*B Q K"],
    mask: Bool[Tensor, "..."] | None,
    reach: Float[Tensor, ""] | float,
    function: Callable[[Tensor], Tensor],
) -> Float[Tensor, "*B Q K"]:
    """`function` over the allowed keys of each row; an empty row is zeros."""
    if scores.numel() == 0:
        return scores
    wide = scores.to(torch.promote_types(scores.dtype, torch.float32))
    if mask is not None:
        wide = wide.masked_fill(~mask, float("-inf"))
    wide = wide.clamp(max=torch.finfo(wide.dtype).max)
    empty = (wide == float("-inf")).all(dim=-1, keepdim=True)
    wide = wide.masked_fill(empty, 0.0)
    shifted = wide - wide.amax(dim=-1, keepdim=True).detach()
    floor = torch.as_tensor(-2.0 * reach, dtype=wide.dtype, device=wide.device).detach()
    weights = function(torch.maximum(shifted, floor))
    return weights.masked_fill(empty, 0.0).to(scores.dtype)


class Sparsemax(nn.Module):
    """A sparse distribution (the entmax package's)."""

    ignores_row_constant = True
    sums_to_one = True

    def __init__(self) -> None:
        super().__init__()
        self.function = from_entmax("sparsemax", "Sparsemax")

    def forward(
        self,
        scores: Float[Tensor, "*B Q K"],
        mask: Bool[Tensor, "..."] | None = None,
        position_info: PositionInfo | None = None,
    ) -> Aligned:
        """Weights over the allowed keys; an empty row is zeros."""
        return Aligned(weights=align_sparse(scores, mask, 1.0, self.function))


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
        self,
        scores: Float[Tensor, "*B Q K"],
        mask: Bool[Tensor, "..."] | None = None,
        position_info: PositionInfo | None = None,
    ) -> Aligned:
        """Weights over the allowed keys; an empty row is zeros."""
        return Aligned(weights=align_sparse(scores, mask, 1.0 / (self.alpha - 1.0), self.closed_or_bisect))

    def closed_or_bisect(self, scores: Float[Tensor, "*B Q K"]) -> Float[Tensor, "*B Q K"]:
        """The exact function where the package has one."""
        return self.closed_form(scores) if self.alpha == 1.5 else self.bisect(scores, self.alpha)
