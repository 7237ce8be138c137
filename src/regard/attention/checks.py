"""Argument checks. Their errors name the argument, its value and the way out."""

from collections.abc import Iterable, Sequence

import torch
from jaxtyping import Float
from torch import Tensor, nn

from regard.attention.masks.algebra import ComposableMask, as_mask, check_count
from regard.contracts import Cache, Memory, PackedTokens, PositionInfo, PositionScheme
from regard.kernels import is_concrete


def check_size(name: str, tensor: Tensor, expected: int, owner: str) -> None:
    """The last dimension of `tensor` is the one that `owner` was built for."""
    if tensor.shape[-1] != expected:
        raise ValueError(
            f"{name} have size {tensor.shape[-1]} (shape {tuple(tensor.shape)}), but {owner} was built for "
            f"size {expected}."
        )


def check_equal_sizes(queries: Tensor, keys: Tensor, owner: str) -> None:
    """Queries and keys have equal sizes, as scores without a projection need."""
    if queries.shape[-1] != keys.shape[-1]:
        raise ValueError(
            f"keys have size {keys.shape[-1]} but {owner} compares equal sizes: queries have {queries.shape[-1]}. "
            f"Use General(query_size={queries.shape[-1]}, key_size={keys.shape[-1]}) or project first."
        )


def check_parts(score: object, align: object) -> None:
    """Score and alignment are instances, not classes or names."""
    for name, part, attribute, example, family in (
        ("score", score, "lower", "ScaledDot()", "scores"),
        ("align", align, "ignores_row_constant", "Softmax()", "alignments"),
    ):
        # isinstance with a runtime protocol takes longer than a short attention
        if isinstance(part, type) or not (callable(part) and hasattr(part, attribute)):
            value = f"the class {part.__name__}" if isinstance(part, type) else repr(part)
            raise TypeError(
                f"{name} is {value}, expected an object such as {example}, from regard.attention.{family} or your "
                f"own (it has no {attribute!r}). `regard list {family}` shows how each is made."
            )


def check_aggregate(aggregate: object) -> None:
    """The aggregation is an instance, not a class, a name or None."""
    if isinstance(aggregate, type) or not callable(aggregate):
        value = f"the class {aggregate.__name__}" if isinstance(aggregate, type) else repr(aggregate)
        raise TypeError(
            f"aggregate is {value}, expected an object such as MappedSum(torch.tanh), from "
            f"regard.attention.aggregations, or your own: called with weights, values and the allowed keys."
        )


def check_states(name: str, states: object, module: object = None) -> None:
    """Floating-point vectors of shape (.., length, size), with the device and dtype of the module's parameters."""
    if not isinstance(states, Tensor):
        raise TypeError(f"{name} must be a tensor of shape (.., length, size), not {type(states).__name__}.")
    # before the shape, which a nested tensor has not
    if states.is_nested:
        raise TypeError(
            f"{name} are nested, expected a dense tensor: {name}.to_padded_tensor(0.0) with mask=padding(lengths)."
        )
    if states.layout != torch.strided:
        raise TypeError(f"{name} are sparse ({states.layout}), expected a dense tensor: {name}.to_dense().")
    if states.ndim < 2:
        raise ValueError(f"{name} have shape {tuple(states.shape)}, expected (.., length, size).")
    if not states.is_floating_point():
        raise TypeError(f"{name} have dtype {states.dtype}, expected a floating-point dtype. Embed tokens first.")
    # torch stores numbers of one byte, and has no arithmetic for them
    if states.dtype.itemsize == 1:
        raise TypeError(
            f"{name} have dtype {states.dtype}, which torch cannot add or compare. Convert them with "
            f"{name}.to(torch.bfloat16)."
        )
    # the first parameter represents all: modules are moved and converted as a whole
    parameter = next(module.parameters(), None) if isinstance(module, nn.Module) else None
    if parameter is None:
        return
    if parameter.device != states.device:
        raise ValueError(
            f"{name} are on {states.device} but the parameters of {type(module).__name__} are on {parameter.device}. "
            f"Move one of them with .to(device)."
        )
    if parameter.dtype != states.dtype and not torch.is_autocast_enabled(states.device.type):
        raise TypeError(
            f"{name} have dtype {states.dtype} but the parameters of {type(module).__name__} have {parameter.dtype}. "
            f"Convert one of them with .to(dtype)."
        )


def check_inputs(queries: Tensor, keys: Tensor, values: Tensor, score: object = None) -> None:
    """Queries, keys and values have devices, dtypes and shapes that go together, and that fit the score."""
    check_states("queries", queries, score)
    for name, tensor in (("keys", keys), ("values", values)):
        check_states(name, tensor)
        if tensor.device != queries.device:
            raise ValueError(
                f"{name} are on {tensor.device} but queries are on {queries.device}. "
                f"Move them with {name}.to(queries.device)."
            )
        # under autocast projected and other tensors may differ, and torch's operations convert them
        if tensor.dtype != queries.dtype and not torch.is_autocast_enabled(queries.device.type):
            raise TypeError(
                f"{name} have dtype {tensor.dtype} but queries have {queries.dtype}. "
                f"Convert them with {name}.to(queries.dtype)."
            )
    if keys.shape[-2] != values.shape[-2]:
        raise ValueError(
            f"keys have shape {tuple(keys.shape)} and values {tuple(values.shape)}: {keys.shape[-2]} keys but "
            f"{values.shape[-2]} values. Each key needs one value."
        )
    # broadcast_shapes takes microseconds even for equal shapes
    if queries.shape[:-2] == keys.shape[:-2] == values.shape[:-2]:
        return
    try:
        torch.broadcast_shapes(queries.shape[:-2], keys.shape[:-2], values.shape[:-2])
    # torch's message names no argument, so it is replaced and not chained
    except RuntimeError:
        raise ValueError(
            f"leading dimensions do not broadcast: queries {tuple(queries.shape)}, keys {tuple(keys.shape)}, "
            f"values {tuple(values.shape)}. Expected (.., length, size) with equal (or size 1) leading dimensions."
        ) from None


def check_scores(scores: Tensor, score: object, queries: Tensor, keys: Tensor) -> None:
    """A score returned one number per query and key."""
    expected = (queries.shape[-2], keys.shape[-2])
    if scores.ndim < 2 or tuple(scores.shape[-2:]) != expected:
        raise ValueError(
            f"{type(score).__name__} returned scores of shape {tuple(scores.shape)}, expected "
            f"(.., {expected[0]} queries, {expected[1]} keys)."
        )


def check_mask(mask: ComposableMask, queries: Tensor) -> None:
    """Tensors of the mask are on the device of the queries."""
    for tensor in mask.tensors():
        if tensor.device != queries.device:
            raise ValueError(
                f"mask is on {tensor.device} but queries are on {queries.device}. Move it with .to(queries.device)."
            )


def check_key_mask(mask: object, states: Tensor) -> None:
    """None, or one boolean per key."""
    if mask is None:
        return
    remedy = (
        f"prepare_memory takes one boolean per key, of shape {tuple(states.shape[:-1])}, True = key exists: "
        f"torch.arange({states.shape[-2]}) < lengths[:, None]. Pass rules such as causal() with the queries."
    )
    if not isinstance(mask, Tensor):
        raise TypeError(f"mask is a {type(mask).__name__}, but {remedy}")
    if mask.dtype != torch.bool:
        raise TypeError(f"mask has dtype {mask.dtype}, but {remedy}")
    if mask.shape != states.shape[:-1]:
        raise ValueError(f"mask has shape {tuple(mask.shape)}, but {remedy}")


def check_memory(memory: object, owner: str) -> None:
    """The memory is a Memory."""
    if not isinstance(memory, Memory):
        raise TypeError(
            f"memory is a {type(memory).__name__}, but {owner} takes a Memory: "
            f"attention(queries, attention.prepare_memory(states))."
        )


def check_probability(name: str, value: float) -> None:
    """A probability below 1."""
    # a comparison with a string would raise without the argument's name
    if isinstance(value, bool) or not isinstance(value, (int, float)):
        raise TypeError(f"{name} is {value!r}, expected a number from 0 up to, not including, 1.")
    # written so that NaN is refused too
    if not 0.0 <= value < 1.0:
        raise ValueError(f"{name} is {value}, expected a probability from 0 up to, not including, 1.")


def check_query_indices(
    queries: Tensor, weights_for_queries: Tensor | Sequence[int] | None, return_weights: bool
) -> Tensor | None:
    """Indices of queries as a tensor; their range is checked where this needs no synchronisation."""
    if weights_for_queries is None:
        return None
    if return_weights:
        raise ValueError(
            "return_weights and weights_for_queries were both given. Request all weights, or those of a few queries."
        )
    num_queries = queries.shape[-2]
    expected = f"expected a list of indices of queries, 0 to {num_queries - 1}"
    if isinstance(weights_for_queries, Tensor):
        indices = weights_for_queries.to(queries.device)
        if indices.is_floating_point() or indices.dtype == torch.bool:
            raise TypeError(
                f"weights_for_queries has dtype {indices.dtype}, {expected}. For a boolean mask pass "
                f"mask.nonzero()[:, 0]."
            )
        # reading indices from a GPU would make the host wait for it
        values = indices.flatten().tolist() if is_concrete(indices) else []
    elif isinstance(weights_for_queries, Iterable):
        values = list(weights_for_queries)
        for value in values:
            # bool is a subclass of int: True would count as index 1
            if not isinstance(value, int) or isinstance(value, bool):
                raise TypeError(f"weights_for_queries contains {value!r}, {expected}.")
        indices = torch.tensor(values, dtype=torch.long, device=queries.device)
    else:
        raise TypeError(f"weights_for_queries is {weights_for_queries!r}, {expected}.")
    if indices.ndim != 1:
        raise ValueError(f"weights_for_queries has shape {tuple(indices.shape)}, {expected}.")
    for value in values:
        # negative indices count from the last query, as in Python
        if not -num_queries <= value < num_queries:
            raise ValueError(f"weights_for_queries contains {value}, {expected}.")
    return indices


def check_head_groups(num_heads: int, num_kv_heads: int) -> None:
    """Query heads in groups of equal size."""
    check_count("num_heads", num_heads, 1)
    check_count("num_kv_heads", num_kv_heads, 1)
    if num_heads % num_kv_heads:
        raise ValueError(
            f"num_heads {num_heads} is not divisible by num_kv_heads {num_kv_heads}: each key head serves the same "
            f"number of query heads. 1 is multi-query, {num_heads} is multi-head."
        )


def check_positions(positions: object, head_size: int, value_head_size: int) -> None:
    """A position scheme inside the heads; absolute positions are added to the states instead."""
    if isinstance(positions, PositionScheme) and positions.needs_weights and value_head_size != head_size:
        raise ValueError(
            f"{type(positions).__name__} adds vectors of the queries' size to the values, but head_size is "
            f"{head_size} and value_head_size {value_head_size}. Make them equal, or use Rotary or Alibi."
        )
    if positions is not None and not isinstance(positions, PositionScheme):
        raise TypeError(
            f"positions is {positions!r}, expected a scheme that works inside the heads: Rotary, Relative or Alibi. "
            f"Sinusoidal and Learned are added to the states first: attention(positions(states))."
        )


def check_head_memory(memory: Memory, queries: Float[Tensor, "... Q hidden"], num_kv_heads: int) -> None:
    """A padded memory of an attention with these heads, for these queries."""
    if memory.keys.ndim != queries.ndim + 1 or memory.keys.shape[-3] != num_kv_heads:
        expected = (*queries.shape[:-2], num_kv_heads, "K", "size")
        raise ValueError(
            f"memory.keys have shape {tuple(memory.keys.shape)}, expected {expected}. "
            f"Make the memory with this attention's own prepare_memory(states)."
        )
    # one head is enough, since all heads are slices of the same tensors
    one = slice(0, 1)
    check_inputs(queries[..., None, :, :], memory.keys[..., one, :, :], memory.values[..., one, :, :])


def check_mask_over_heads(
    mask: ComposableMask | Tensor | None, queries: Float[Tensor, "... Q hidden"]
) -> ComposableMask | None:
    """A mask that says whether it differs per batch element or per head: (batch, Q, K) would broadcast over heads."""
    if mask is None:
        return None
    rule = as_mask(mask)
    for tensor in rule.tensors():
        # the scores will be (batch, heads, Q, K), and broadcasting would align (batch, Q, K) with (heads, Q, K)
        if tensor.ndim == 3 and queries.ndim == 3:
            raise ValueError(
                f"mask has shape {tuple(tensor.shape)}, whose first dimension could be the batch or the heads. "
                f"Pass it as (batch, 1, Q, K) or (1, heads, Q, K)."
            )
    return rule


def check_position_info(position_info: object) -> None:
    """Positions of queries and keys as an object, or none."""
    if position_info is not None and not isinstance(position_info, PositionInfo):
        raise TypeError(f"position_info is a {type(position_info).__name__}, expected PositionInfo(positions=...).")


def check_cache(cache: object, packed: object = None) -> None:
    """A cache is an instance, not a class or a flag."""
    # a class has the attributes of the protocol too and would pass as an instance
    if isinstance(cache, type) or not isinstance(cache, Cache):
        value = f"the class {cache.__name__}" if isinstance(cache, type) else f"a {type(cache).__name__}"
        raise TypeError(f"cache is {value}, expected an object such as GrowingCache().")
    if packed is not None:
        # a cache appends positions to every example alike, and packed examples have different lengths
        raise ValueError("cache and packed were both given. Use padded queries with a cache, or leave out the cache.")


def check_same_batch(cache: Cache, keys: Float[Tensor, "... H K key"]) -> None:
    """The cache has the batch and heads of the new keys."""
    # an empty cache fits every batch
    old_keys = cache.keys if cache.length else None
    if old_keys is not None and (old_keys.shape[:-2] != keys.shape[:-2] or old_keys.dtype != keys.dtype):
        raise ValueError(
            f"the cache has keys of shape {tuple(old_keys.shape)} and {old_keys.dtype}, but the new ones have "
            f"{tuple(keys.shape)} and {keys.dtype}. Use one cache per batch, from its first position on."
        )


def check_packed(packed: PackedTokens, states: Float[Tensor, "N size"], mask: object) -> None:
    """The states are those of the packed tokens, and no mask is given."""
    if not isinstance(packed, PackedTokens):
        raise TypeError(f"packed is a {type(packed).__name__}, expected PackedTokens.")
    if mask is not None:
        raise ValueError("mask and packed were both given, but packed tokens have no padding. Leave out the mask.")
    if states.ndim != 2:
        raise ValueError(f"packed states have shape {tuple(states.shape)}, expected (tokens, size): one row per token.")
    # a kernel takes its bounds from the packed tokens alone, so other rows would be out of bounds
    if states.shape[0] != packed.ids.shape[0]:
        raise ValueError(
            f"there are {states.shape[0]} states, but packed has {packed.ids.shape[0]} tokens. Pass the PackedTokens "
            f"that the states were computed from."
        )


def check_same_batch_size(packed: PackedTokens, memory: Memory) -> None:
    """Queries and memory have equally many sequences."""
    # cu_seqlens has B + 1 entries; its shape is available without reading the device
    batch_size = packed.cu_seqlens.shape[0] - 1
    expected = memory.keys.shape[0] if memory.packed is None else memory.packed.cu_seqlens.shape[0] - 1
    if batch_size != expected:
        raise ValueError(
            f"the packed queries have {batch_size} sequences, but the memory has {expected}. Make both of the same "
            f"batch."
        )


def is_triangle(mask: ComposableMask | Tensor | None) -> bool:
    """True for the causal triangle alone, under which no token attends to the padding after it."""
    return isinstance(mask, ComposableMask) and mask.is_triangle
