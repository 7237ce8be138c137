"""Which token each key of a language model's read stands for.

A read of a text at once has the text's keys last, whatever was kept from before in front of them: a window that nothing
was read into yet. A tape is read once before every token, and holds the cells of those before it: empty ones at first,
and later without the oldest.

Shapes: Q queries, K keys.
"""

from dataclasses import replace

import torch
import torch.nn.functional as F
from jaxtyping import Float
from torch import Tensor

from regard.attention import AttentionMap


def first_key(read: AttentionMap, asked: int, *, is_stepwise: bool) -> int:
    """The token of a read's first key, `asked` queries after the beginning; below 0 are keys of nothing."""
    *_, num_queries, num_keys = read.weights.shape
    return asked - num_keys if is_stepwise else asked + num_queries - num_keys


def cut(read: AttentionMap, first: int) -> AttentionMap:
    """The read without the keys of nothing, which have no weight."""
    if first >= 0:
        return read
    allowed = read.allowed
    if allowed is not None and allowed.shape[-1] > 1:
        allowed = allowed[..., -first:]
    return replace(
        read,
        keys=read.keys[..., -first:, :],
        values=read.values[..., -first:, :],
        scores=read.scores[..., -first:],
        weights=read.weights[..., -first:],
        allowed=allowed,
    )


def aligned(read: AttentionMap, first: int) -> AttentionMap:
    """The read with a key for every token from the first on; one that is no longer kept is 0, and may not be read."""
    read = cut(read, first)
    if first <= 0:
        return read
    every = torch.ones_like(read.scores, dtype=torch.bool)
    allowed = every if read.allowed is None else read.allowed.broadcast_to(read.scores.shape)
    keys = F.pad(read.keys, (0, 0, first, 0))
    return replace(
        read,
        keys=keys,
        values=F.pad(read.values, (0, 0, first, 0)),
        scores=read.score(read.queries, keys).detach(),
        weights=F.pad(read.weights, (first, 0)),
        allowed=F.pad(allowed, (first, 0), value=False),
    )


def laid_out(weights: Float[Tensor, "... Q K"], first: int, num_keys: int) -> Float[Tensor, "... Q N"]:
    """A column for each of so many tokens; 0 where the read had no key."""
    weights = weights[..., max(-first, 0) :]
    before = max(first, 0)
    return F.pad(weights, (before, num_keys - before - weights.shape[-1]))
