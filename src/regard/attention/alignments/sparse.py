"""What sparsemax and entmax share: the entmax package's functions, guarded.

Those functions raise on a row with nothing allowed and lose digits far from 0. Both maps ignore a constant added to a
row and give exactly 0 to a score more than `reach` below the best, so each row is shifted to have its best at 0 and
what is forbidden or out of reach is put past that distance.
"""

from collections.abc import Callable

import torch
from jaxtyping import Bool, Float
from torch import Tensor


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
