"""Masks and argument checks of torch.nn.MultiheadAttention.

    bool   True = may NOT attend
    float  is added to the scores; -inf = may not attend

Both kinds may be given together. What they forbid becomes a mask of regard, where True = may attend; finite terms are
added to the scores. So a query without allowed keys gets zeros, and -inf is never added to -inf.

Shapes: *N batch (none when unbatched), H heads, L queries, S keys.
"""

from dataclasses import dataclass
from functools import reduce
from operator import and_

import torch
import torch.nn.functional as F
from jaxtyping import Float, Shaped
from torch import Tensor

from regard.attention import SCALED_DOT
from regard.attention.masks import ComposableMask, as_mask
from regard.attention.scores import Biased
from regard.contracts import Score


def check_sizes(embed_dim: int, num_heads: int, dropout: float) -> None:
    """Heads of equal size, and dropout as a probability."""
    if embed_dim < 1 or num_heads < 1:
        raise ValueError(f"embed_dim={embed_dim}, num_heads={num_heads}: expected 1 or more of each.")
    if embed_dim % num_heads:
        raise ValueError(
            f"embed_dim {embed_dim} is not divisible by num_heads {num_heads}. Choose a head count that divides it, "
            f"or embed_dim={-(-embed_dim // num_heads) * num_heads}."
        )
    if not 0.0 <= dropout <= 1.0:
        raise ValueError(f"dropout is {dropout}, expected a probability from 0 to 1.")


def check_inputs(
    query: Tensor, key: Tensor, value: Tensor, *, sizes: tuple[int, int, int], batch_first: bool, dtype: torch.dtype
) -> None:
    """Query, key and value of one batch, in the layout and the sizes of the module."""
    if any(tensor.is_nested for tensor in (query, key, value)):
        raise ValueError("key or value is nested but query is not. Pass the same nested tensor as all three.")
    if query.ndim not in (2, 3):
        layout = "(N, L, embed_dim)" if batch_first else "(L, N, embed_dim)"
        raise ValueError(
            f"query has shape {tuple(query.shape)}, expected {layout} (batch_first={batch_first}), or "
            f"(L, embed_dim) without a batch."
        )
    named = {"query": query, "key": key, "value": value}
    for (name, tensor), size, argument in zip(named.items(), sizes, ("embed_dim", "kdim", "vdim"), strict=True):
        if tensor.ndim != query.ndim:
            raise ValueError(
                f"{name} has shape {tuple(tensor.shape)} but query {tuple(query.shape)}: all three have a batch, or "
                f"none has."
            )
        if tensor.shape[-1] != size:
            raise ValueError(
                f"{name} has size {tensor.shape[-1]} (shape {tuple(tensor.shape)}), but the module was built with "
                f"{argument}={size}."
            )
        if tensor.device != query.device:
            raise ValueError(f"{name} is on {tensor.device} but query is on {query.device}. Move it there.")
        # under autocast the projection converts its input
        if tensor.dtype != dtype and not torch.is_autocast_enabled(query.device.type):
            raise TypeError(f"{name} has dtype {tensor.dtype} but the module has {dtype}. Convert one of them.")
    check_lengths(query, key, value, batch_first=batch_first)


def check_lengths(query: Tensor, key: Tensor, value: Tensor, *, batch_first: bool) -> None:
    """One value per key, and the same batch size for all three."""
    if key.shape[:-1] != value.shape[:-1]:
        raise ValueError(
            f"key has shape {tuple(key.shape)} and value {tuple(value.shape)}: each key needs one value, so all but "
            f"the last dimension must agree."
        )
    batch = 0 if batch_first else 1
    if query.ndim == 3 and query.shape[batch] != key.shape[batch]:
        raise ValueError(
            f"query has a batch of {query.shape[batch]} and key of {key.shape[batch]} (shapes {tuple(query.shape)}, "
            f"{tuple(key.shape)}; batch_first={batch_first} puts the batch in dimension {batch})."
        )


def check_masks(
    attn_mask: Tensor | None, key_padding_mask: Tensor | None, *, scores: tuple[int, ...], device: torch.device
) -> None:
    """Masks have a dtype and shape that fit scores (N, heads, L, S), or unbatched (heads, L, S)."""
    *batch, heads, queries, keys = scores
    # torch's per-head mask is flat, with N * H as its first dimension
    batch_heads = heads * batch[0] if batch else heads
    expected = {
        "attn_mask": (attn_mask, ((queries, keys), (batch_heads, queries, keys))),
        "key_padding_mask": (key_padding_mask, ((*batch, keys),)),
    }
    for name, (mask, shapes) in expected.items():
        if mask is None:
            continue
        if mask.dtype != torch.bool and not mask.is_floating_point():
            raise TypeError(
                f"{name} has dtype {mask.dtype}, expected torch.bool (True = may not attend) or a floating-point "
                f"dtype (added to the scores). For a 0/1 mask pass {name}.bool()."
            )
        if tuple(mask.shape) not in shapes:
            raise ValueError(f"{name} has shape {tuple(mask.shape)}, expected {' or '.join(map(str, shapes))}.")
        if mask.device != device:
            raise ValueError(f"{name} is on {mask.device} but query is on {device}. Move it there.")


def check_hint(is_causal: bool, attn_mask: Tensor | None) -> None:
    """is_causal describes attn_mask, so it needs one."""
    if is_causal and attn_mask is None:
        raise ValueError(
            "is_causal=True says that attn_mask is the causal mask, but attn_mask is None. Pass it too, such as "
            "torch.nn.Transformer.generate_square_subsequent_mask(L)."
        )


@dataclass(frozen=True, kw_only=True)
class Restriction:
    """The allowed keys, and a term added to the scores."""

    mask: ComposableMask | None = None
    bias: Float[Tensor, "..."] | None = None

    @property
    def score(self) -> Score:
        """The scaled dot product, plus the term."""
        return SCALED_DOT if self.bias is None else Biased(SCALED_DOT, self.bias)


def over_heads(
    attn_mask: Shaped[Tensor, "..."] | None, key_padding_mask: Shaped[Tensor, "... S"] | None, leading: tuple[int, ...]
) -> list[Shaped[Tensor, "..."]]:
    """The masks that are not None, shaped to broadcast to the scores (*N, H, L, S); `leading` is (*N, H)."""
    masks = []
    if attn_mask is not None:
        # in torch's layout (N * H, L, S) the heads of a batch element are next to each other
        masks.append(attn_mask if attn_mask.ndim == 2 else attn_mask.unflatten(0, leading))
    if key_padding_mask is not None:
        # (*N, S) becomes (*N, 1, 1, S)
        masks.append(key_padding_mask[..., None, None, :])
    return masks


def restriction_of(masks: list[Shaped[Tensor, "..."]], *, extra_keys: int, dtype: torch.dtype) -> Restriction:
    """Masks in torch's polarity as a Restriction; the `extra_keys` at the end are allowed for all queries."""
    rules: list[ComposableMask] = [
        as_mask(F.pad(~mask, (0, extra_keys), value=True)) for mask in masks if not is_added(mask)
    ]
    # converted first: a term of a wider dtype may become -inf in that of the scores
    terms = [mask.to(dtype) for mask in masks if is_added(mask)]
    bias = None
    if terms:
        # a term of 0 at the extra keys, which follow the others in the last axis
        total = F.pad(sum(terms[1:], start=terms[0]), (0, extra_keys))
        # finite terms may overflow to -inf in their sum, which must be forbidden too
        allowed = total != float("-inf")
        rules.append(as_mask(allowed))
        # the mask forbids these keys already
        bias = total.masked_fill(~allowed, 0.0)
    return Restriction(mask=reduce(and_, rules) if rules else None, bias=bias)


def is_added(mask: Shaped[Tensor, "..."]) -> bool:
    """True if the mask is added to the scores, False if it forbids keys."""
    return mask.is_floating_point()
