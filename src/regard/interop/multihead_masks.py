"""Masks and argument checks of torch.nn.MultiheadAttention.

What torch.nn.MultiheadAttention refuses, said in sentences.

torch.nn.MultiheadAttention's masks as ours.

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

from regard.attention import SCALED_DOT
from regard.attention.masks import ComposableMask, as_mask
from regard.attention.scores import Biased
from regard.contracts import Score


def check_sizes(embed_dim: int, num_heads: int, dropout: float) -> None:
    """Heads of equal size, and a probability."""
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
    """Query, key and value of one batch, in the layout and the sizes the module was built for."""
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
        # under autocast the projection settles the precision
        if tensor.dtype != dtype and not torch.is_autocast_enabled(query.device.type):
            raise ValueError(f"{name} has dtype {tensor.dtype} but the module has {dtype}. Convert one of them.")
    check_lengths(query, key, value, batch_first=batch_first)


def check_lengths(query: Tensor, key: Tensor, value: Tensor, *, batch_first: bool) -> None:
    """One value per key, one batch for all three."""
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
    """Masks of a kind and shape that fit scores (N, heads, L, S), or unbatched (heads, L, S)."""
    *batch, heads, queries, keys = scores
    rows = heads * batch[0] if batch else heads
    fitting = {
        "attn_mask": (attn_mask, ((queries, keys), (rows, queries, keys))),
        "key_padding_mask": (key_padding_mask, ((*batch, keys),)),
    }
    for name, (mask, shapes) in fitting.items():
        if mask is None:
            continue
        if mask.dtype != torch.bool and not mask.is_floating_point():
            raise ValueError(
                f"{name} has dtype {mask.dtype}, expected torch.bool (True = may not attend) or a floating-point "
                f"dtype (added to the scores). For a 0/1 mask pass {name}.bool()."
            )
        if tuple(mask.shape) not in shapes:
            raise ValueError(f"{name} has shape {tuple(mask.shape)}, expected {' or '.join(map(str, shapes))}.")
        if mask.device != device:
            raise ValueError(f"{name} is on {mask.device} but query is on {device}. Move it there.")


def check_hint(is_causal: bool, attn_mask: Tensor | None) -> None:
    """The hint says something about a mask, so there must be one."""
    if is_causal and attn_mask is None:
        raise ValueError(
            "is_causal=True says that attn_mask is the causal mask, but attn_mask is None. Pass it too, such as "
            "torch.nn.Transformer.generate_square_subsequent_mask(L)."
        )


@dataclass(frozen=True, kw_only=True)
class Restriction:
    """Which keys a query may read, and what is added to its scores before it does."""

    rule: ComposableMask | None = None
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
    rules: list[ComposableMask] = [
        as_mask(F.pad(~mask, (0, extra_keys), value=True)) for mask in masks if not is_added(mask)
    ]
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
