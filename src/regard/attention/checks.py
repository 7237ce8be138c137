"""Argument checks whose errors name the argument, its value and the way out.

Errors that say which argument is wrong, what it is, and the way out.

Errors of multi-head attention: heads that do not divide, masks that could mean two things, caches of others.
"""

from collections.abc import Iterable, Sequence

import torch
from jaxtyping import Float
from torch import Tensor, nn

from regard.attention.masks.algebra import ComposableMask, as_mask
from regard.contracts import Cache, Memory, PackedTokens, PositionScheme
from regard.kernels import is_concrete


def check_size(name: str, tensor: Tensor, expected: int, owner: str) -> None:
    """The last dimension of `tensor` must be what `owner` was built for."""
    if tensor.shape[-1] != expected:
        raise ValueError(
            f"{name} have size {tensor.shape[-1]} (shape {tuple(tensor.shape)}), but {owner} was built for "
            f"size {expected}."
        )


def check_equal_sizes(queries: Tensor, keys: Tensor, owner: str) -> None:
    """A score without parameters compares like with like."""
    if queries.shape[-1] != keys.shape[-1]:
        raise ValueError(
            f"keys have size {keys.shape[-1]} but {owner} compares equal sizes: queries have {queries.shape[-1]}. "
            f"Use General(query_size={queries.shape[-1]}, key_size={keys.shape[-1]}) or project first."
        )


def check_parts(score: object, align: object) -> None:
    """Variants are objects: an instance, not a class or a name."""
    for name, part, telling, example, family in (
        ("score", score, "lower", "ScaledDot()", "scores"),
        ("align", align, "ignores_row_constant", "Softmax()", "alignments"),
    ):
        # isinstance of a protocol would cost more than a short attention
        if isinstance(part, type) or not (callable(part) and hasattr(part, telling)):
            given = f"the class {part.__name__}" if isinstance(part, type) else repr(part)
            raise ValueError(
                f"{name} is {given}, expected an object such as {example}, out of regard.attention.{family} or your "
                f"own (it has no {telling!r}). `regard list {family}` shows how each is made."
            )


def check_states(name: str, states: object, module: object = None) -> None:
    """Floating-point vectors of shape (.., length, size), where the module's parameters are and in their dtype."""
    if not isinstance(states, Tensor):
        raise ValueError(f"{name} must be a tensor of shape (.., length, size), not {type(states).__name__}.")
    if states.ndim < 2:
        raise ValueError(f"{name} have shape {tuple(states.shape)}, expected (.., length, size).")
    if not states.is_floating_point():
        raise ValueError(f"{name} have dtype {states.dtype}, expected a floating-point dtype. Embed tokens first.")
    parameter = next(module.parameters(), None) if isinstance(module, nn.Module) else None
    if parameter is None:
        return
    if parameter.device != states.device:
        raise ValueError(
            f"{name} are on {states.device} but the parameters of {type(module).__name__} are on {parameter.device}. "
            f"Move one of them with .to(device)."
        )
    if parameter.dtype != states.dtype and not torch.is_autocast_enabled(states.device.type):
        raise ValueError(
            f"{name} have dtype {states.dtype} but the parameters of {type(module).__name__} have {parameter.dtype}. "
            f"Convert one of them with .to(dtype)."
        )


def check_inputs(queries: Tensor, keys: Tensor, values: Tensor, score: object = None) -> None:
    """Queries, keys and values that can be read together, by this score."""
    check_states("queries", queries, score)
    for name, tensor in (("keys", keys), ("values", values)):
        check_states(name, tensor)
        if tensor.device != queries.device:
            raise ValueError(
                f"{name} are on {tensor.device} but queries are on {queries.device}. "
                f"Move them with {name}.to(queries.device)."
            )
        # under autocast the projections may differ from what was not projected; torch's own operations settle it
        if tensor.dtype != queries.dtype and not torch.is_autocast_enabled(queries.device.type):
            raise ValueError(
                f"{name} have dtype {tensor.dtype} but queries have {queries.dtype}. "
                f"Convert them with {name}.to(queries.dtype)."
            )
    if keys.shape[-2] != values.shape[-2]:
        raise ValueError(
            f"keys have shape {tuple(keys.shape)} and values {tuple(values.shape)}: {keys.shape[-2]} keys but "
            f"{values.shape[-2]} values. Each key needs one value."
        )
    if queries.shape[:-2] == keys.shape[:-2] == values.shape[:-2]:
        return
    try:
        torch.broadcast_shapes(queries.shape[:-2], keys.shape[:-2], values.shape[:-2])
    except RuntimeError:
        raise ValueError(
            f"leading dimensions do not broadcast: queries {tuple(queries.shape)}, keys {tuple(keys.shape)}, "
            f"values {tuple(values.shape)}. Expected (.., length, size) with equal (or size 1) leading dimensions."
        ) from None


def check_scores(scores: Tensor, score: object, queries: Tensor, keys: Tensor) -> None:
    """A score of one's own must give one number per pair."""
    expected = (queries.shape[-2], keys.shape[-2])
    if scores.ndim < 2 or tuple(scores.shape[-2:]) != expected:
        raise ValueError(
            f"{type(score).__name__} gave scores of shape {tuple(scores.shape)}, expected (.., {expected[0]} queries, "
            f"{expected[1]} keys)."
        )


def check_mask(mask: ComposableMask, queries: Tensor) -> None:
    """A tensor inside a mask must live where the queries do."""
    for tensor in mask.tensors():
        if tensor.device != queries.device:
            raise ValueError(
                f"mask is on {tensor.device} but queries are on {queries.device}. Move it with .to(queries.device)."
            )


def check_key_mask(mask: object, states: Tensor) -> None:
    """One boolean per key, or none."""
    if mask is None:
        return
    if not isinstance(mask, Tensor) or mask.dtype != torch.bool or mask.shape != states.shape[:-1]:
        given = f"shape {tuple(mask.shape)} and {mask.dtype}" if isinstance(mask, Tensor) else type(mask).__name__
        raise ValueError(
            f"mask has {given}, but what is remembered takes one boolean per key, {tuple(states.shape[:-1])}, True = "
            f"real: torch.arange({states.shape[-2]}) < lengths[:, None]. Rules such as causal() go with the queries."
        )


def check_memory(memory: object, owner: str) -> None:
    """Attention reads what it remembers."""
    if not isinstance(memory, Memory):
        raise ValueError(
            f"memory is a {type(memory).__name__}, but {owner} reads a Memory: "
            f"attention(queries, attention.prepare_memory(states))."
        )


def check_probability(name: str, value: float) -> None:
    """A probability that leaves something."""
    if not 0.0 <= value < 1.0:
        raise ValueError(f"{name} is {value}, expected a probability from 0 up to, not including, 1.")


def check_query_indices(
    queries: Tensor, weights_for_queries: Tensor | Sequence[int] | None, return_weights: bool
) -> Tensor | None:
    """Numbers of queries as a tensor to index with; the range is looked at where that costs nothing."""
    if weights_for_queries is None:
        return None
    if return_weights:
        raise ValueError(
            "return_weights and weights_for_queries were both given. Ask for all weights, or for those of a few."
        )
    count = queries.shape[-2]
    if not isinstance(weights_for_queries, Iterable):
        raise ValueError(
            f"weights_for_queries is {weights_for_queries!r}, expected a list of numbers of queries, 0 to {count - 1}."
        )
    if isinstance(weights_for_queries, Tensor):
        rows = weights_for_queries.to(queries.device)
    else:
        wrong = [row for row in weights_for_queries if not isinstance(row, int) or isinstance(row, bool)]
        if wrong:
            raise ValueError(
                f"weights_for_queries has {wrong[0]!r} in it, expected numbers of queries, 0 to {count - 1}."
            )
        rows = torch.tensor(list(weights_for_queries), dtype=torch.long, device=queries.device)
    if rows.ndim != 1 or rows.is_floating_point() or rows.dtype == torch.bool:
        raise ValueError(
            f"weights_for_queries has shape {tuple(rows.shape)} and dtype {rows.dtype}, expected a list of numbers of queries; "
            f"of a mask take mask.nonzero()[:, 0]."
        )
    given = (
        weights_for_queries
        if not isinstance(weights_for_queries, Tensor)
        else rows.tolist()
        if is_concrete(rows)
        else []
    )
    for row in given:
        if not -count <= row < count:
            raise ValueError(f"weights_for_queries names query {row}, but there are {count}: 0 to {count - 1}.")
    return rows


def check_heads(hidden_size: int, num_heads: int, num_kv_heads: int) -> None:
    """Heads of equal size, in groups of equal size."""
    if min(hidden_size, num_heads, num_kv_heads) < 1:
        raise ValueError(
            f"hidden_size={hidden_size}, num_heads={num_heads}, num_kv_heads={num_kv_heads}: expected 1 or more."
        )
    if hidden_size % num_heads:
        raise ValueError(
            f"hidden_size {hidden_size} is not divisible by num_heads {num_heads}. "
            f"Choose a head count that divides it, or hidden_size={-(-hidden_size // num_heads) * num_heads}."
        )
    if num_heads % num_kv_heads:
        raise ValueError(
            f"num_heads {num_heads} is not divisible by num_kv_heads {num_kv_heads}: each key head serves the same "
            f"number of query heads. 1 is multi-query, {num_heads} is multi-head."
        )


def check_positions(positions: object) -> None:
    """A scheme for inside the heads; the others are added to states before any attention."""
    if positions is not None and not isinstance(positions, PositionScheme):
        raise ValueError(
            f"positions is {positions!r}, expected a scheme that works inside the heads: Rotary, Relative or Alibi. "
            f"Sinusoidal and Learned are added to the states first: attention(positions(states))."
        )


def checked_mask(mask: ComposableMask | Tensor | None, queries: Float[Tensor, "... Q hidden"]) -> ComposableMask | None:
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


def check_packed(packed: PackedTokens, states: Float[Tensor, "N size"], mask: object) -> None:
    """Rows that these states are, and no other word on which are real."""
    if mask is not None:
        raise ValueError("mask and packed were both given, but packed rows have no padding. Leave out the mask.")
    if states.shape[0] != packed.ids.shape[0]:
        raise ValueError(
            f"there are {states.shape[0]} states, but packed says {packed.ids.shape[0]} tokens. Give the rows that "
            f"these states were made of."
        )


def check_same_rows(packed: PackedTokens, memory: Memory) -> None:
    """As many rows of queries as of memory."""
    rows = packed.cu_seqlens.shape[0] - 1
    held = memory.keys.shape[0] if memory.packed is None else memory.packed.cu_seqlens.shape[0] - 1
    if rows != held:
        raise ValueError(
            f"there are {rows} packed rows of queries, but the memory has {held}. Row by row they belong together: "
            f"make both of the same batch."
        )


def is_triangle(mask: ComposableMask | Tensor | None) -> bool:
    """Whether this is the causal triangle: then no real query sees the padding behind it."""
    return isinstance(mask, ComposableMask) and mask.is_triangle
