"""Positions and lengths of queries and keys, and padding of packed memories."""

from dataclasses import replace

import torch
import torch.nn.functional as F
from jaxtyping import Bool, Float, Int, Num
from torch import Tensor

from regard.contracts import Memory, PositionInfo
from regard.kernels import pad_packed

Positions = tuple[Int[Tensor, " Q"], Int[Tensor, " K"]]
"""Positions of the queries and of the keys."""


def positions_of(queries: Float[Tensor, "... Q size"], num_keys: int, first_key: int) -> Positions:
    """Positions of the queries and keys of one sequence; the last query has the position of the last key."""
    keys = torch.arange(first_key, first_key + num_keys, device=queries.device)
    # with a cache there are more keys than queries, and both end at the same position
    first_query = first_key + num_keys - queries.shape[-2]
    return torch.arange(first_query, first_query + queries.shape[-2], device=queries.device), keys


def per_head_positions(
    position_info: PositionInfo | None, self_attention: Positions | None = None
) -> PositionInfo | None:
    """Position information for all heads: positions get a head axis, and self-attention provides missing ones."""
    if position_info is not None:
        # the queries of the heads differ from those of the module
        position_info = replace(position_info, queries=None)
        if position_info.positions is not None and position_info.positions.ndim > 1:
            # (batch, Q) becomes (batch, 1, Q), to broadcast over the heads; (Q,) broadcasts already
            position_info = replace(position_info, positions=position_info.positions.unsqueeze(-2))
    if self_attention is None:
        return position_info
    position_info = PositionInfo() if position_info is None else position_info
    query_positions, key_positions = self_attention
    # positions of the caller take precedence; key positions follow from the cache
    return replace(
        position_info,
        positions=query_positions if position_info.positions is None else position_info.positions,
        key_positions=key_positions,
    )


def pad_memory(memory: Memory) -> Memory:
    """A packed memory, (N, heads, size), as a padded and masked one, (B, heads, L, size)."""
    if memory.packed is None:
        return memory
    num_heads, packed = memory.keys.shape[-2], memory.packed
    # pad_packed takes vectors, so the heads are joined for it: (N, H * size) -> (B, L, H * size) -> (B, H, L, size)
    keys, values = (
        pad_packed(tensor.flatten(-2), packed).unflatten(-1, (num_heads, -1)).transpose(-3, -2)
        for tensor in (memory.keys, memory.values)
    )
    return Memory(keys=keys, values=values, mask=packed.mask)


def query_steps(
    position_info: PositionInfo | None, scores: Float[Tensor, "*B Q K"], owner: str
) -> Float[Tensor, "... Q"]:
    """The step t of each query."""
    if position_info is None or position_info.positions is None:
        raise ValueError(
            f"{owner} depends on the step of each query, which scores of shape {tuple(scores.shape)} do not contain. "
            f"Pass position_info=regard.PositionInfo(positions=torch.arange({scores.shape[-2]})), or the decoder's "
            f"current step."
        )
    num_steps = position_info.positions.shape[-1]
    if num_steps != scores.shape[-2]:
        raise ValueError(f"position_info.positions has {num_steps} steps, but there are {scores.shape[-2]} queries.")
    return position_info.positions.to(scores.device, position_dtype(scores))


def key_steps(position_info: PositionInfo | None, scores: Float[Tensor, "*B Q K"]) -> Float[Tensor, " K"]:
    """The position j of each key."""
    if position_info is not None and position_info.key_positions is not None:
        return position_info.key_positions.to(scores.device, position_dtype(scores))
    return torch.arange(scores.shape[-1], device=scores.device, dtype=position_dtype(scores))


def earlier_weights(position_info: PositionInfo | None, scores: Float[Tensor, "*B Q K"]) -> Float[Tensor, "... K"]:
    """The weights of the query before the first one; all weight on the first key if there is none."""
    num_keys, dtype = scores.shape[-1], position_dtype(scores)
    if position_info is None or position_info.previous_weights is None:
        return (torch.arange(num_keys, device=scores.device) == 0).to(dtype)
    weights = position_info.previous_weights
    expected = (*scores.shape[:-2], num_keys)
    # size 1 broadcasts, and a memory that grows had fewer keys
    fits = (
        weights.ndim <= len(expected)
        and weights.shape[-1:] <= expected[-1:]
        and all(size in (1, other) for size, other in zip(weights.shape[-2::-1], expected[-2::-1], strict=False))
    )
    if not weights.ndim or not fits:
        raise ValueError(
            f"position_info.previous_weights has shape {tuple(weights.shape)}, expected {expected}: the weights of the "
            f"query before, such as attended.weights[..., -1, :]."
        )
    return F.pad(weights.to(scores.device, dtype), (0, num_keys - weights.shape[-1]))


def position_dtype(scores: Tensor) -> torch.dtype:
    """float32 or wider: bfloat16 has 8 bits of precision and would round 257 to 256."""
    return torch.promote_types(scores.dtype, torch.float32)


def source_lengths(
    position_info: PositionInfo | None, scores: Float[Tensor, "*B Q K"], mask: Bool[Tensor, "..."] | None
) -> Float[Tensor, "..."]:
    """The source length S of each query, to broadcast against (.., Q); by default up to its last allowed key."""
    if position_info is not None and position_info.lengths is not None:
        return per_query_lengths(position_info.lengths, scores)
    # positions count from 0, so a source whose last key is at j has length j + 1
    ends = key_steps(position_info, scores) + 1
    if scores.shape[-1] == 0:
        return ends.new_zeros(())
    if mask is None:
        # keys are in ascending order
        return ends[-1]
    # a mask of size 1 over the keys is expanded, so that each key has an entry
    allowed = mask.expand(torch.broadcast_shapes(mask.shape, (1, scores.shape[-1])))
    # the last allowed key decides; a query without any has length 0
    return torch.where(allowed, ends, 0.0).amax(dim=-1)


def per_query_lengths(lengths: Num[Tensor, "..."], scores: Float[Tensor, "*B Q K"]) -> Float[Tensor, "..."]:
    """Lengths of the first leading dimensions, shaped to broadcast against (.., Q)."""
    # (batch,) becomes (batch, 1, .., 1): one axis for each further dimension of the scores except the keys'
    missing = scores.ndim - 1 - lengths.ndim
    return lengths.to(scores.device, position_dtype(scores)).reshape(*lengths.shape, *(1,) * missing)
