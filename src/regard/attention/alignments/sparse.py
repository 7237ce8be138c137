"""Sparse alignments: sparsemax and entmax, which give most keys weight 0.

    Sparsemax   weights = argmin_p |p - s|^2            over distributions p
    Entmax      weights = argmax_p  p . s + H_alpha(p)  over distributions p, H_alpha Tsallis' entropy

Sparsemax: Martins and Astudillo 2016. https://arxiv.org/abs/1602.02068
Entmax: Peters, Niculae and Martins 2019. https://arxiv.org/abs/1905.05702
Entmax is softmax at alpha = 1 and sparsemax at alpha = 2.

The functions of the entmax package raise for a query without allowed keys and for NaN, which gives weights of NaN here
as in every alignment, and lose precision far from 0. Both maps
ignore a constant added to all scores and give 0 to scores more than `reach` below the largest, so scores are shifted to
have their largest at 0, and forbidden and lower ones are clamped beyond that distance.
"""

import math
from collections.abc import Callable

import torch
from jaxtyping import Bool, Float
from torch import Tensor, nn

from regard.contracts import Aligned, PositionInfo
from regard.kernels import is_mapped


def from_entmax(name: str, user: str) -> Callable[..., Tensor]:
    """A function of the entmax package; the error names `user` if the package is missing."""
    # imported when an alignment is constructed, not with the package: few models need it
    try:
        import entmax
    except ImportError:
        raise ImportError(f"{user} needs the entmax package. Install it with: pip install entmax") from None
    # torch.compile cannot trace the package's autograd functions and calls them as they are
    function: Callable[..., Tensor] = torch.compiler.allow_in_graph(getattr(entmax, name))
    return function


def align_sparse(
    scores: Float[Tensor, "*B Q K"],
    mask: Bool[Tensor, "..."] | None,
    reach: Float[Tensor, ""] | float,
    function: Callable[[Tensor], Tensor],
) -> Float[Tensor, "*B Q K"]:
    """`function` over the allowed keys of each query; zeros for a query without any, NaN for one with a NaN score."""
    if is_mapped(scores):
        raise TypeError(
            "sparse alignments call autograd functions of the entmax package, which torch.func cannot transform. Use "
            "Softmax inside torch.func, or call attend on the whole batch."
        )
    # amax over no keys would raise
    if scores.numel() == 0:
        return scores
    # the threshold is found by cumulative sums or bisection, which half precision rounds too coarsely
    wide = scores.to(torch.promote_types(scores.dtype, torch.float32))
    if mask is not None:
        wide = wide.masked_fill(~mask, float("-inf"))
    # inf - inf would be NaN below
    wide = wide.clamp(max=torch.finfo(wide.dtype).max)
    empty = (wide == float("-inf")).all(dim=-1, keepdim=True)
    broken = wide.detach().isnan().any(dim=-1, keepdim=True)
    # any finite number: these rows are replaced at the end, and no NaN enters the gradient of empty ones
    wide = wide.masked_fill(empty | broken, 0.0)
    # the result does not depend on the constant, so detaching it changes no gradient
    shifted = wide - wide.amax(dim=-1, keepdim=True).detach()
    # what is clamped here gets weight 0 and no gradient
    # weights are 0 from `reach` below the largest score; the factor 2 is a margin beyond it
    floor = torch.as_tensor(-2.0 * reach, dtype=wide.dtype, device=wide.device).detach()
    weights = function(torch.maximum(shifted, floor))
    return weights.masked_fill(empty, 0.0).masked_fill(broken, torch.nan).to(scores.dtype)


class Sparsemax(nn.Module):
    """The distribution nearest to the scores, by the entmax package."""

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
        """Weights over the allowed keys; zeros for a query without any."""
        # sparsemax gives weight 0 to every score at least 1 below the largest
        return Aligned(weights=align_sparse(scores, mask, 1.0, self.function))


class Entmax(nn.Module):
    """A sparse distribution, by the entmax package: exact for alpha = 1.5, by bisection for others."""

    ignores_row_constant = True
    sums_to_one = True

    def __init__(self, *, alpha: float = 1.5) -> None:
        super().__init__()
        # written so that NaN is refused too
        if not 1.0 < alpha < math.inf:
            raise ValueError(f"alpha is {alpha}, expected more than 1. Entmax with alpha = 1 is Softmax().")
        self.alpha = alpha
        self.closed_form = from_entmax("entmax15", "Entmax")
        self.bisect = from_entmax("entmax_bisect", "Entmax")

    def extra_repr(self) -> str:
        """Settings that print shows."""
        return f"alpha={self.alpha}"

    def forward(
        self,
        scores: Float[Tensor, "*B Q K"],
        mask: Bool[Tensor, "..."] | None = None,
        position_info: PositionInfo | None = None,
    ) -> Aligned:
        """Weights over the allowed keys; zeros for a query without any."""
        # entmax gives weight 0 to every score at least 1 / (alpha - 1) below the largest
        return Aligned(weights=align_sparse(scores, mask, 1.0 / (self.alpha - 1.0), self.closed_or_bisect))

    def closed_or_bisect(self, scores: Float[Tensor, "*B Q K"]) -> Float[Tensor, "*B Q K"]:
        """The exact function for alpha = 1.5, bisection otherwise."""
        return self.closed_form(scores) if self.alpha == 1.5 else self.bisect(scores, self.alpha)
