"""Additive scores and attention as the formula, and the request of an additive kernel.

What an additive kernel is asked: softmax(energy . tanh(queries + keys)) over what the mask allows, @ values.

Additive scores and attention as the formula has them.

    score(q, k) = energy . tanh(q + k),   context = softmax(scores) values

Bahdanau, Cho and Bengio 2015, section A.1.2. https://arxiv.org/abs/1409.0473
"""

import math
from collections.abc import Callable
from dataclasses import dataclass, replace
from functools import partial, reduce
from typing import Any

import torch
import torch.nn.functional as F
from jaxtyping import Bool, Float, Int
from torch import Tensor

from regard.contracts import Mask
from regard.kernels.autograd import in_query_blocks
from regard.kernels.request import AttentionRequest
from regard.kernels.softmax import masked_softmax


@dataclass(frozen=True, kw_only=True)
class AdditiveRequest(AttentionRequest):
    """One read of projected queries and keys."""

    energy: Float[Tensor, " H"]


@dataclass(frozen=True, kw_only=True)
class Rows:
    """The same read as kernels take it: one leading dimension, and the mask in linear memory where it has such a form.

    Query i of row b may read key j if low[b, i] <= j < high[b, i] and real[b, j] and written[b, i, j]; a first
    dimension of 1 serves all rows. `seed` is one number, on the device, from which the dropped weights are drawn.
    """

    queries: Float[Tensor, "B Q H"]
    keys: Float[Tensor, "B K H"]
    energy: Float[Tensor, " H"]
    values: Float[Tensor, "B K value"]
    low: Int[Tensor, "#B Q"] | None = None
    high: Int[Tensor, "#B Q"] | None = None
    real: Bool[Tensor, "#B K"] | None = None
    written: Bool[Tensor, "#B Q K"] | None = None
    seed: Int[Tensor, " 1"] | None = None
    dropout: float = 0.0

    def tensors(self) -> tuple[Tensor | None, ...]:
        """All fields but the last, in order."""
        return (
            self.queries, self.keys, self.energy, self.values, self.low, self.high, self.real, self.written, self.seed,
        )  # fmt: skip


def rows_of(read: AdditiveRequest) -> Rows:
    """One leading dimension, the mask's parts gathered into intervals, real keys, and what has neither form."""
    leading = list(read.shape[:-2])
    queries, keys, values = (flat(side, leading) for side in (read.queries, read.keys, read.values))
    rows = Rows(queries=queries, keys=keys, energy=read.energy, values=values, dropout=float(read.dropout))
    if read.dropout:
        rows = replace(rows, seed=torch.randint(2**31 - 1, (1,), device=read.queries.device))
    return rows if read.mask is None else replace(rows, **mask_of(read, read.mask))


def mask_of(read: AdditiveRequest, mask: Mask) -> dict[str, Any]:
    """The mask as rows have it."""
    *leading, num_queries, num_keys = read.shape
    places = torch.arange(num_queries, device=read.queries.device) + read.first_query
    intervals, written, real = [], [], []
    for part in mask.parts():
        if not part.per_query:
            real.append(part.allowed(read.grid(1)).expand(*leading, 1, num_keys).reshape(-1, num_keys))
        elif (interval := part.interval(places)) is not None:
            intervals.append(interval)
        else:
            written.append(spread(part.allowed(read.grid(num_queries)), leading, num_queries, num_keys))
    together = reduce(torch.logical_and, written) if written else None
    if together is not None:
        # keys that nobody may read, which may hold anything
        real.append(together.any(1))
    low = narrowest([low for low, _ in intervals], torch.maximum)
    high = narrowest([high for _, high in intervals], torch.minimum)
    return {
        "low": None if low is None else (low - read.first_key).clamp(0, num_keys).int()[None],
        "high": None if high is None else (high - read.first_key).clamp(0, num_keys).int()[None],
        "real": reduce(torch.logical_and, real) if real else None,
        "written": together,
    }


def spread(allowed: Bool[Tensor, "..."], leading: list[int], num_queries: int, num_keys: int) -> Bool[Tensor, "#B Q K"]:
    """A part of the mask with one leading dimension: 1 where all rows share it."""
    shared = math.prod(allowed.shape[:-2]) == 1
    shape = ([1] if shared else leading) + [num_queries, num_keys]
    allowed = allowed.reshape(1, *allowed.shape[-2:]) if shared and allowed.ndim > 1 else allowed
    return allowed.expand(*shape).reshape(-1, num_queries, num_keys)


def flat(side: Float[Tensor, "... L size"], leading: list[int]) -> Float[Tensor, "B L size"]:
    """With one leading dimension, and no more work than that takes."""
    if len(leading) == 1 and side.shape[:-2] == (leading[0],):
        return side
    return side.expand(*leading, *side.shape[-2:]).reshape(-1, *side.shape[-2:])


def narrowest(bounds: list[Tensor | None], take: Callable[[Tensor, Tensor], Tensor]) -> Tensor | None:
    """The bound that all of these allow."""
    given = [bound for bound in bounds if bound is not None]
    return reduce(take, given) if given else None


def pair_scores(
    queries: Float[Tensor, "... Q H"], keys: Float[Tensor, "... K H"], *, energy: Float[Tensor, " H"]
) -> Float[Tensor, "... Q K"]:
    """All comparisons at once."""
    return torch.tanh(queries.unsqueeze(-2) + keys.unsqueeze(-3)) @ energy.to(queries.dtype)


def additive_scores(
    queries: Float[Tensor, "*#B Q H"], keys: Float[Tensor, "*#B K H"], energy: Float[Tensor, " H"]
) -> Float[Tensor, "*B Q K"]:
    """Scores of every projected query against every projected key."""
    return in_query_blocks(partial(pair_scores, energy=energy), queries, keys)


def read_rows_plain(rows: Rows) -> Float[Tensor, "B Q value"]:
    """The same of rows as kernels take them, without dropout; keys that nobody may read may hold anything."""
    keys, values, places = rows.keys, rows.values, torch.arange(rows.keys.shape[1], device=rows.keys.device)
    allowed = torch.ones(1, 1, len(places), dtype=torch.bool, device=places.device)
    if rows.real is not None:
        keys, values = (side.masked_fill(~rows.real[..., None], 0.0) for side in (keys, values))
        allowed = allowed & rows.real[:, None]
    if rows.low is not None:
        allowed = allowed & (places >= rows.low[..., None])
    if rows.high is not None:
        allowed = allowed & (places < rows.high[..., None])
    if rows.written is not None:
        allowed = allowed & rows.written
    weights = masked_softmax(additive_scores(rows.queries, keys, rows.energy), allowed)
    return weights.to(values.dtype) @ values


def attend_additive_plain(read: AdditiveRequest) -> Float[Tensor, "... Q value"]:
    """Forms every weight."""
    scores = additive_scores(read.queries, read.keys, read.energy)
    weights = masked_softmax(scores, read.allowed())
    weights = F.dropout(weights, read.dropout) if read.dropout else weights
    return weights.to(read.values.dtype) @ read.values
