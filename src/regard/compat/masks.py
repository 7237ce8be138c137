"""torch.nn.MultiheadAttention's masks as ours.

    bool   True = may NOT attend
    float  is added to the scores; -inf = may not attend

Both kinds may come together. What is forbidden becomes a mask of ours, where True = may attend; what remains finite is
added to the scores. So a row in which nothing is left reads zeros, and no -inf meets another.

Shapes: *N batch (none when unbatched), H heads, L queries, S keys.
"""

from dataclasses import dataclass
from functools import reduce
from operator import and_

import torch
import torch.nn.functional as F
from jaxtyping import Float, Shaped
from torch import Tensor

from regard.attention.biased import Biased
from regard.attention.core import SCALED_DOT
from regard.attention.masks import Rule, as_mask
from regard.contracts import Score


@dataclass(frozen=True, kw_only=True)
class Restriction:
    """Which keys a query may read, and what is added to its scores before it does."""

    rule: Rule | None = None
    added: Float[Tensor, "..."] | None = None

    @property
    def score(self) -> Score:
        """The scaled dot product, with what is added."""
        return SCALED_DOT if self.added is None else Biased(SCALED_DOT, self.added)


def over_heads(
    attn_mask: Shaped[Tensor, "..."] | None, key_padding_mask: Shaped[Tensor, "... S"] | None, leading: tuple[int, ...]
) -> list[Shaped[Tensor, "..."]]:
    """The masks that were given, each so that it broadcasts to the scores (*N, H, L, S); `leading` is (*N, H)."""
    masks = []
    if attn_mask is not None:
        # torch lays the heads of a row of the batch next to each other: (N * H, L, S)
        masks.append(attn_mask if attn_mask.ndim == 2 else attn_mask.unflatten(0, leading))
    if key_padding_mask is not None:
        masks.append(key_padding_mask[..., None, None, :])
    return masks


def restriction(masks: list[Shaped[Tensor, "..."]], *, extra_keys: int, dtype: torch.dtype) -> Restriction:
    """Masks in torch's polarity as one of ours; the `extra_keys` after the last key are open to everyone."""
    rules: list[Rule] = [as_mask(F.pad(~mask, (0, extra_keys), value=True)) for mask in masks if not is_added(mask)]
    terms = [mask.to(dtype) for mask in masks if is_added(mask)]
    added = None
    if terms:
        total = F.pad(sum(terms[1:], start=terms[0]), (0, extra_keys))
        # two finite terms may add up to -inf, so it is looked for in their sum
        open_keys = total != float("-inf")
        rules.append(as_mask(open_keys))
        added = total.masked_fill(~open_keys, 0.0)
    return Restriction(rule=reduce(and_, rules) if rules else None, added=added)


def is_added(mask: Shaped[Tensor, "..."]) -> bool:
    """Whether the mask is a term of the scores and not a set of forbidden places."""
    return mask.is_floating_point()
