"""Scores that need many numbers for each pair, a block of queries at a time: memory of one block, backward too."""

from collections.abc import Callable

import torch
from jaxtyping import Float
from torch import Tensor
from torch.utils.checkpoint import checkpoint

CELLS = 2**24
"""Numbers that may be formed at a time."""


def in_query_blocks(
    score: Callable[[Tensor, Tensor], Tensor], queries: Float[Tensor, "... Q size"], keys: Float[Tensor, "... K size"]
) -> Float[Tensor, "... Q K"]:
    """`score` of every query against every key, where one pair takes as many numbers as the keys' size."""
    pairs = max(queries.shape[:-1].numel(), keys.shape[:-2].numel() * queries.shape[-2]) * keys.shape[-2]
    num_blocks = -(-pairs * keys.shape[-1] // CELLS)
    # a compiler forms them one by one anyway
    if num_blocks < 2 or queries.shape[-2] < 2 or torch.compiler.is_compiling():
        return score(queries, keys)
    blocks = queries.tensor_split(min(num_blocks, queries.shape[-2]), dim=-2)
    if torch.is_grad_enabled() and (queries.requires_grad or keys.requires_grad):
        return torch.cat([checkpoint(score, block, keys, use_reentrant=False) for block in blocks], dim=-2)
    return torch.cat([score(block, keys) for block in blocks], dim=-2)
