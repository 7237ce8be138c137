"""Where the queries and keys of one sequence stand, and those of many that lie end to end."""

from dataclasses import replace

import torch
from jaxtyping import Float, Int
from torch import Tensor

from regard.contracts import Look, Memory
from regard.kernels import spread_rows


def positions_of(
    queries: Float[Tensor, "... Q size"], num_keys: int, first_key: int
) -> tuple[Int[Tensor, " Q"], Int[Tensor, " K"]]:
    """Where queries and keys of one sequence stand; the last query meets the last key."""
    keys = torch.arange(first_key, first_key + num_keys, device=queries.device)
    first_query = first_key + num_keys - queries.shape[-2]
    return torch.arange(first_query, first_query + queries.shape[-2], device=queries.device), keys


def placed(
    look: Look | None, num_keys: int = 0, states: Float[Tensor, "... Q size"] | None = None, first_key: int = 0
) -> Look | None:
    """The look as the heads see it: given positions serve every head; in one sequence they are known without it."""
    if look is not None and look.positions is not None and look.positions.ndim > 1:
        look = replace(look, positions=look.positions.unsqueeze(-2))
    if look is not None:
        look = replace(look, queries=None)
    if states is None:
        return look
    look = look or Look()
    query_positions, key_positions = positions_of(states, num_keys, first_key)
    return replace(
        look, positions=query_positions if look.positions is None else look.positions, key_positions=key_positions
    )


def spread_memory(memory: Memory) -> Memory:
    """(N, heads, size) end to end as (rows, heads, longest, size), padded and masked."""
    if memory.packed is None:
        return memory
    num_heads, rows = memory.keys.shape[-2], memory.packed
    keys, values = (
        spread_rows(tensor.flatten(-2), rows).unflatten(-1, (num_heads, -1)).transpose(-3, -2)
        for tensor in (memory.keys, memory.values)
    )
    return Memory(keys=keys, values=values, mask=rows.mask)
