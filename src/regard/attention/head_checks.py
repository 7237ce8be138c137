"""Errors of multi-head attention: heads that do not divide, masks that could mean two things, caches of others."""

from jaxtyping import Float
from torch import Tensor

from regard.attention.masks import Rule, as_mask
from regard.attention.positions import InsideHeads
from regard.contracts import Cache, Memory, Packed


def check_heads(hidden_size: int, num_heads: int, num_key_heads: int) -> None:
    """Heads of equal size, in groups of equal size."""
    if min(hidden_size, num_heads, num_key_heads) < 1:
        raise ValueError(
            f"hidden_size={hidden_size}, num_heads={num_heads}, num_key_heads={num_key_heads}: expected 1 or more."
        )
    if hidden_size % num_heads:
        raise ValueError(
            f"hidden_size {hidden_size} is not divisible by num_heads {num_heads}. "
            f"Choose a head count that divides it, or hidden_size={-(-hidden_size // num_heads) * num_heads}."
        )
    if num_heads % num_key_heads:
        raise ValueError(
            f"num_heads {num_heads} is not divisible by num_key_heads {num_key_heads}: each key head serves the same "
            f"number of query heads. 1 is multi-query, {num_heads} is multi-head."
        )


def check_positions(positions: object) -> None:
    """A scheme for inside the heads; the others are added to states before any attention."""
    if positions is not None and not isinstance(positions, InsideHeads):
        raise ValueError(
            f"positions is {positions!r}, expected a scheme that works inside the heads: Rotary, Relative or Alibi. "
            f"Sinusoidal and Learned are added to the states first: attention(positions(states))."
        )


def checked_mask(mask: Rule | Tensor | None, queries: Float[Tensor, "... Q hidden"]) -> Rule | None:
    """A mask over heads: (batch, Q, K) would be read as (heads, Q, K), so it must say which it is."""
    if mask is None:
        return None
    rule = as_mask(mask)
    for tensor in rule.tensors():
        if tensor.ndim == 3 and queries.ndim == 3:
            raise ValueError(
                f"mask has shape {tuple(tensor.shape)}, which could be per row or per head. Write it as "
                f"(batch, 1, Q, K) or (1, heads, Q, K)."
            )
    return rule


def check_cache(cache: object) -> None:
    """An object, not a class or a flag."""
    if isinstance(cache, type) or not isinstance(cache, Cache):
        given = cache.__name__ if isinstance(cache, type) else type(cache).__name__
        raise ValueError(f"cache is a {given}, expected an object such as GrowingCache().")


def check_same_batch(cache: Cache, keys: Float[Tensor, "... H K key"]) -> None:
    """A cache of these rows and heads."""
    held = cache.keys if cache.length else None
    if held is not None and (held.shape[:-2] != keys.shape[:-2] or held.dtype != keys.dtype):
        raise ValueError(
            f"the cache holds keys of shape {tuple(held.shape)} and {held.dtype}, but the new ones have "
            f"{tuple(keys.shape)} and {keys.dtype}. A cache goes on with the batch it began with."
        )


def check_packed(packed: Packed, states: Float[Tensor, "N size"], mask: object) -> None:
    """Rows that these states are, and no other word on which are real."""
    if mask is not None:
        raise ValueError("mask and packed were both given, but packed rows have no padding. Leave out the mask.")
    if states.shape[0] != packed.ids.shape[0]:
        raise ValueError(
            f"there are {states.shape[0]} states, but packed says {packed.ids.shape[0]} tokens. Give the rows that "
            f"these states were made of."
        )


def check_same_rows(packed: Packed, memory: Memory) -> None:
    """As many rows of queries as of memory."""
    rows = packed.offsets.shape[0] - 1
    held = memory.keys.shape[0] if memory.packed is None else memory.packed.offsets.shape[0] - 1
    if rows != held:
        raise ValueError(
            f"there are {rows} packed rows of queries, but the memory has {held}. Row by row they belong together: "
            f"make both of the same batch."
        )


def is_triangle(mask: Rule | Tensor | None) -> bool:
    """Whether this is the causal triangle: then no real query sees the padding behind it."""
    return isinstance(mask, Rule) and mask.is_triangle
