"""Position indices of queries and keys.

Where the queries and keys of one sequence stand, and those of many that lie end to end.

Where queries and keys stand, for alignments that go by position.
"""

from dataclasses import replace

import torch
from jaxtyping import Bool, Float, Int, Num
from torch import Tensor

from regard.contracts import Memory, PositionInfo
from regard.kernels import pad_packed


def positions_of(
    queries: Float[Tensor, "... Q size"], num_keys: int, first_key: int
) -> tuple[Int[Tensor, " Q"], Int[Tensor, " K"]]:
    """Where queries and keys of one sequence stand; the last query meets the last key."""
    keys = torch.arange(first_key, first_key + num_keys, device=queries.device)
    first_query = first_key + num_keys - queries.shape[-2]
    return torch.arange(first_query, first_query + queries.shape[-2], device=queries.device), keys


def placed(
    position_info: PositionInfo | None,
    num_keys: int = 0,
    states: Float[Tensor, "... Q size"] | None = None,
    first_key: int = 0,
) -> PositionInfo | None:
    """The look as the heads see it: given positions serve every head; in one sequence they are known without it."""
    if position_info is not None and position_info.positions is not None and position_info.positions.ndim > 1:
        position_info = replace(position_info, positions=position_info.positions.unsqueeze(-2))
    if position_info is not None:
        position_info = replace(position_info, queries=None)
    if states is None:
        return position_info
    position_info = position_info or PositionInfo()
    query_positions, key_positions = positions_of(states, num_keys, first_key)
    return replace(
        position_info,
        positions=query_positions if position_info.positions is None else position_info.positions,
        key_positions=key_positions,
    )


def pad_memory(memory: Memory) -> Memory:
    """(N, heads, size) end to end as (rows, heads, longest, size), padded and masked."""
    if memory.packed is None:
        return memory
    num_heads, rows = memory.keys.shape[-2], memory.packed
    keys, values = (
        pad_packed(tensor.flatten(-2), rows).unflatten(-1, (num_heads, -1)).transpose(-3, -2)
        for tensor in (memory.keys, memory.values)
    )
    return Memory(keys=keys, values=values, mask=rows.mask)


def steps(position_info: PositionInfo | None, scores: Float[Tensor, "*B Q K"], owner: str) -> Float[Tensor, "... Q"]:
    """The step t of each query."""
    if position_info is None or position_info.positions is None:
        raise ValueError(
            f"{owner} goes by the step of each query, which scores of shape {tuple(scores.shape)} do not tell. "
            f"Pass position_info=regard.PositionInfo(positions=torch.arange({scores.shape[-2]})), or the decoder's current step."
        )
    given = position_info.positions.shape[-1]
    if given != scores.shape[-2]:
        raise ValueError(f"position_info.positions has {given} steps, but there are {scores.shape[-2]} queries.")
    return position_info.positions.to(scores.device, wide(scores))


def wide(scores: Tensor) -> torch.dtype:
    """Positions do not fit bfloat16's 8 bits: 257 would be 256."""
    return torch.promote_types(scores.dtype, torch.float32)


def key_steps(position_info: PositionInfo | None, scores: Float[Tensor, "*B Q K"]) -> Float[Tensor, " K"]:
    """The position j of each key."""
    if position_info is not None and position_info.key_positions is not None:
        return position_info.key_positions.to(scores.device, wide(scores))
    return torch.arange(scores.shape[-1], device=scores.device, dtype=wide(scores))


def source_lengths(
    position_info: PositionInfo | None, scores: Float[Tensor, "*B Q K"], mask: Bool[Tensor, "..."] | None
) -> Float[Tensor, "..."]:
    """The length S that each query knows of, to broadcast against (.., Q): given, or up to the last key it may read."""
    if position_info is not None and position_info.lengths is not None:
        return per_row(position_info.lengths, scores)
    ends = key_steps(position_info, scores) + 1
    if scores.shape[-1] == 0:
        return ends.new_zeros(())
    if mask is None:
        return ends[-1]
    readable = mask.expand(torch.broadcast_shapes(mask.shape, (1, scores.shape[-1])))
    return torch.where(readable, ends, 0.0).amax(dim=-1)


def per_row(lengths: Num[Tensor, "..."], scores: Float[Tensor, "*B Q K"]) -> Float[Tensor, "..."]:
    """Lengths of the first leading dimensions, shaped to broadcast against (.., Q)."""
    missing = scores.ndim - 1 - lengths.ndim
    return lengths.to(scores.device, wide(scores)).reshape(*lengths.shape, *(1,) * missing)
