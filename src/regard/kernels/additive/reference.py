"""Additive scores and attention as the formula has them, and the request of an additive kernel.

    score(q, k) = energy . tanh(q + k),   context = softmax(scores) values

Bahdanau, Cho and Bengio 2015, section A.1.2. https://arxiv.org/abs/1409.0473

Kernels are tested against `attend_additive_plain`. They take a `FlatRequest`: one leading dimension, and the mask in
linear memory wherever its parts are intervals of keys or the same for all queries.
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
    """softmax(energy . tanh(queries + keys)) values; queries and keys are projected to the H hidden units already."""

    energy: Float[Tensor, " H"]


@dataclass(frozen=True, kw_only=True)
class FlatRequest:
    """An additive request with one leading dimension B, and its mask in parts.

    Query i of batch element b may attend to key j if low[b, i] <= j < high[b, i], key_mask[b, j] and
    pair_mask[b, i, j]; None allows everything, and a first dimension of 1 serves the whole batch. `seed` is one number
    on the device, from which the dropped weights are drawn.
    """

    queries: Float[Tensor, "B Q H"]
    keys: Float[Tensor, "B K H"]
    energy: Float[Tensor, " H"]
    values: Float[Tensor, "B K value"]
    low: Int[Tensor, "#B Q"] | None = None
    high: Int[Tensor, "#B Q"] | None = None
    key_mask: Bool[Tensor, "#B K"] | None = None
    pair_mask: Bool[Tensor, "#B Q K"] | None = None
    seed: Int[Tensor, " 1"] | None = None
    dropout: float = 0.0

    def tensors(self) -> tuple[Tensor | None, ...]:
        """All fields but the last, in order."""
        return (
            self.queries, self.keys, self.energy, self.values, self.low, self.high, self.key_mask, self.pair_mask,
            self.seed,
        )  # fmt: skip


def flatten_request(request: AdditiveRequest) -> FlatRequest:
    """Merge the leading dimensions into one and split the mask into its parts."""
    leading = list(request.shape[:-2])
    queries, keys, values = (flatten_leading(side, leading) for side in (request.queries, request.keys, request.values))
    flat = FlatRequest(queries=queries, keys=keys, energy=request.energy, values=values, dropout=float(request.dropout))
    if request.dropout:
        # a seed on the device: forward and backward draw the same weights from it, without a transfer to the host
        flat = replace(flat, seed=torch.randint(2**31 - 1, (1,), device=request.queries.device))
    return flat if request.mask is None else replace(flat, **split_mask(request, request.mask))


def split_mask(request: AdditiveRequest, mask: Mask) -> dict[str, Any]:
    """The mask fields of a flat request."""
    *leading, num_queries, num_keys = request.shape
    positions = torch.arange(num_queries, device=request.queries.device) + request.first_query
    intervals, key_masks, pair_masks = [], [], []
    for part in mask.parts():
        if not part.per_query:
            key_mask = part.allowed(request.grid(1)).expand(*leading, 1, num_keys)
            key_masks.append(key_mask.reshape(-1, num_keys))
        # causal masks and windows: two numbers for each query
        elif (interval := part.interval(positions)) is not None:
            intervals.append(interval)
        else:
            allowed = part.allowed(request.grid(num_queries))
            pair_masks.append(flatten_pair_mask(allowed, leading, num_queries, num_keys))
    pair_mask = reduce(torch.logical_and, pair_masks) if pair_masks else None
    if pair_mask is not None:
        # keys that no query may attend to: they may hold NaN, so the kernels must not load them
        key_masks.append(pair_mask.any(1))
    # the conjunction of intervals is an interval
    low = tightest_bound([low for low, _ in intervals], torch.maximum)
    high = tightest_bound([high for _, high in intervals], torch.minimum)
    return {
        "low": None if low is None else (low - request.first_key).clamp(0, num_keys).int()[None],
        "high": None if high is None else (high - request.first_key).clamp(0, num_keys).int()[None],
        "key_mask": reduce(torch.logical_and, key_masks) if key_masks else None,
        "pair_mask": pair_mask,
    }


def flatten_pair_mask(
    allowed: Bool[Tensor, "..."], leading: list[int], num_queries: int, num_keys: int
) -> Bool[Tensor, "#B Q K"]:
    """A part of the mask with one leading dimension: 1 where the whole batch shares it."""
    shared = math.prod(allowed.shape[:-2]) == 1
    shape = ([1] if shared else leading) + [num_queries, num_keys]
    allowed = allowed.reshape(1, *allowed.shape[-2:]) if shared and allowed.ndim > 1 else allowed
    return allowed.expand(*shape).reshape(-1, num_queries, num_keys)


def flatten_leading(side: Float[Tensor, "... L size"], leading: list[int]) -> Float[Tensor, "B L size"]:
    """Merge the leading dimensions into one."""
    # the usual case of one batch dimension needs no views, which add to the time of a short call
    if len(leading) == 1 and side.shape[:-2] == (leading[0],):
        return side
    return side.expand(*leading, *side.shape[-2:]).reshape(-1, *side.shape[-2:])


def tightest_bound(bounds: list[Tensor | None], combine: Callable[[Tensor, Tensor], Tensor]) -> Tensor | None:
    """The bound that satisfies all of these; None is unbounded."""
    tensors = [bound for bound in bounds if bound is not None]
    return reduce(combine, tensors) if tensors else None


def pair_scores(
    queries: Float[Tensor, "... Q H"], keys: Float[Tensor, "... K H"], *, energy: Float[Tensor, " H"]
) -> Float[Tensor, "... Q K"]:
    """Form the whole (Q, K, H) tensor at once."""
    return torch.tanh(queries.unsqueeze(-2) + keys.unsqueeze(-3)) @ energy.to(queries.dtype)


def additive_scores(
    queries: Float[Tensor, "*#B Q H"], keys: Float[Tensor, "*#B K H"], energy: Float[Tensor, " H"]
) -> Float[Tensor, "*B Q K"]:
    """Scores of every projected query against every projected key."""
    # in blocks: the (Q, K, H) tensor of all pairs may not fit into memory
    return in_query_blocks(partial(pair_scores, energy=energy), queries, keys)


def attend_flat_plain(request: FlatRequest) -> Float[Tensor, "B Q value"]:
    """The formula for a flat request without dropout; keys that no query may attend to may hold anything."""
    keys, values = request.keys, request.values
    positions = torch.arange(keys.shape[1], device=keys.device)
    allowed = torch.ones(1, 1, len(positions), dtype=torch.bool, device=keys.device)
    if request.key_mask is not None:
        # 0 * NaN is NaN: a weight of 0 alone does not keep masked values out of the product
        keys, values = (side.masked_fill(~request.key_mask[..., None], 0.0) for side in (keys, values))
        allowed = allowed & request.key_mask[:, None]
    if request.low is not None:
        allowed = allowed & (positions >= request.low[..., None])
    if request.high is not None:
        allowed = allowed & (positions < request.high[..., None])
    if request.pair_mask is not None:
        allowed = allowed & request.pair_mask
    weights = masked_softmax(additive_scores(request.queries, keys, request.energy), allowed)
    return weights.to(values.dtype) @ values


def attend_additive_plain(request: AdditiveRequest) -> Float[Tensor, "... Q value"]:
    """The formula; forms every weight."""
    scores = additive_scores(request.queries, request.keys, request.energy)
    weights = masked_softmax(scores, request.allowed())
    # after the softmax, as in every fused path
    weights = F.dropout(weights, request.dropout) if request.dropout else weights
    return weights.to(request.values.dtype) @ request.values
