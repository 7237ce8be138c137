"""Attention on prepared keys: what `attend`, `Attention` and `MultiHeadAttention` have in common.

A fused kernel computes the context where one can. Otherwise scores, weights and context are formed one after another,
and the active recorders are notified.
"""

from collections.abc import Callable, Sequence
from dataclasses import replace
from functools import partial
from typing import Any

import torch
import torch.nn.functional as F
from jaxtyping import Bool, Float, Int
from torch import Tensor

from regard.attention.aggregations import WEIGHTED_SUM, WeightedSum
from regard.attention.backends import fused_request, lower, reasons_to_form
from regard.attention.checks import check_mask, check_position_info, check_query_indices, check_scores
from regard.attention.masks.algebra import ComposableMask, as_mask
from regard.attention.masks.padding import KeyMask
from regard.attention.scores.with_bias import Biased
from regard.attention.trace import notify
from regard.contracts import Aggregation, Alignment, Attended, AttentionMap, Grid, PositionInfo, Score, active_recorders
from regard.kernels import attend_fused
from regard.kernels.dot import expand_groups


def attend_prepared(
    queries: Float[Tensor, "... Q query"],
    keys: Float[Tensor, "... K prepared"],
    values: Float[Tensor, "... K value"],
    *,
    score: Score,
    align: Alignment,
    aggregate: Aggregation = WEIGHTED_SUM,
    mask: ComposableMask | None,
    position_info: PositionInfo | None = None,
    dropout: float = 0.0,
    return_weights: bool = False,
    weights_for_queries: Int[Tensor, " requested"] | Sequence[int] | None = None,
    first_key: int = 0,
    group_size: int = 1,
    context_term: Callable[[Tensor], Tensor] | None = None,
) -> Attended:
    """`attend` with prepared keys, the first at position `first_key`; `context_term` maps weights to a further term."""
    check_position_info(position_info)
    if mask is not None:
        check_mask(mask, queries)
    indices = check_query_indices(queries, weights_for_queries, return_weights)
    must_form = bool(reasons_to_form(align, return_weights or context_term is not None, aggregate))
    # lowering may project the queries and read values on the host, which is wasted if the weights are formed
    lowered = None if must_form else lower(score, align, queries, keys, group_size)
    if lowered is not None and not isinstance(lowered, str):
        request = fused_request(lowered, values, mask=mask, dropout=dropout, first_key=first_key, group_size=group_size)
        attended = Attended(context=attend_fused(request))
        if indices is None:
            return attended
        # the context is complete; weights of a few queries are formed beside it
        options: dict[str, Any] = {"score": score, "align": align, "mask": mask, "first_key": first_key}
        keys, values = expand_groups(keys, group_size), expand_groups(values, group_size)
        weights = weights_for(queries, keys, indices, values=values, **options)
        return replace(attended, weights=weights)
    formed = attend_formed(
        queries,
        expand_groups(keys, group_size),
        expand_groups(values, group_size),
        score=score,
        align=align,
        aggregate=aggregate,
        mask=mask,
        position_info=PositionInfo() if position_info is None else position_info,
        dropout=dropout,
        first_key=first_key,
        context_term=context_term,
        indices=indices,
    )
    # without a request the weights are dropped, so that the caller does not keep them in memory
    return formed if return_weights or indices is not None else replace(formed, weights=None)


def attend_formed(
    queries: Float[Tensor, "... Q query"],
    keys: Float[Tensor, "... K prepared"],
    values: Float[Tensor, "... K value"],
    *,
    score: Score,
    align: Alignment,
    aggregate: Aggregation,
    mask: ComposableMask | None,
    position_info: PositionInfo,
    dropout: float,
    first_key: int,
    context_term: Callable[[Tensor], Tensor] | None,
    indices: Int[Tensor, " requested"] | None,
) -> Attended:
    """Attention that forms all weights and notifies the active recorders."""
    if position_info.queries is None:
        position_info = replace(position_info, queries=queries)
    scores = score(queries, keys)
    # a score from outside the package may return any shape
    check_scores(scores, score, queries, keys)
    scores = expand_like_values(scores, values)
    allowed = allowed_keys(mask, scores, first_key)
    aligned = align(scores, allowed, position_info)
    # F.dropout is active by default: callers pass a rate of 0 in evaluation
    weights = F.dropout(aligned.weights, dropout) if dropout else aligned.weights
    combine = partial(
        context_of,
        values=values,
        aggregate=aggregate,
        # the weighted sum has no use for it
        allowed=None if type(aggregate) is WeightedSum else possible_keys(allowed, scores),
        context_term=context_term,
    )
    context = combine(weights)
    # the weights of a few queries are those before dropout, as beside a fused kernel, unless they were replaced
    undropped = aligned.weights
    if active_recorders():
        attention = AttentionMap(
            queries=queries, keys=keys, values=values, scores=scores, weights=weights, context=context,
            allowed=allowed, score=score, align=align, position_info=position_info,
        )  # fmt: skip
        replacement = notify(attention, combine)
        if replacement is not None:
            weights, context = replacement
            # the returned weights are those that formed the context
            undropped = weights
    returned = weights if indices is None else undropped[..., indices, :]
    return Attended(context=context, weights=returned, sample_log_prob=aligned.sample_log_prob)


def context_of(
    weights: Float[Tensor, "... Q K"],
    values: Float[Tensor, "... K value"],
    *,
    aggregate: Aggregation,
    allowed: Bool[Tensor, "..."] | None,
    context_term: Callable[[Tensor], Tensor] | None,
) -> Float[Tensor, "... Q output"]:
    """The aggregated values, plus the term of a position scheme."""
    context = aggregate(weights, values, allowed)
    return context if context_term is None else context + context_term(weights)


def possible_keys(allowed: Bool[Tensor, "..."] | None, scores: Float[Tensor, "... Q K"]) -> Bool[Tensor, "... Q K"]:
    """The mask, and the keys that a score of -inf forbids as a mask does."""
    possible = scores.detach() != float("-inf")
    return possible if allowed is None else possible & allowed


def weights_for(
    queries: Float[Tensor, "... Q query"],
    keys: Float[Tensor, "... K prepared"],
    indices: Int[Tensor, " requested"],
    *,
    score: Score,
    align: Alignment,
    mask: ComposableMask | None,
    first_key: int,
    values: Float[Tensor, "... K value"],
) -> Float[Tensor, "... requested K"]:
    """The weights of a few queries, formed for these alone."""
    if isinstance(score, Biased):
        score = score.select_queries(indices)
    scores = expand_like_values(score(queries[..., indices, :], keys), values)
    if mask is None:
        return align(scores, None, None).weights
    # positions follow from the number of all queries, not from the number of requested ones
    shape = (*scores.shape[:-2], queries.shape[-2], scores.shape[-1])
    grid = Grid.of(shape, device=scores.device, first_query=first_key + shape[-1] - shape[-2], first_key=first_key)
    # query positions are (Q, 1), of which the requested ones are taken
    few = replace(grid, queries=grid.queries[indices])
    # the neutral element of &, which broadcasts
    allowed = torch.ones((), dtype=torch.bool, device=scores.device)
    for part in mask.parts():
        # a rule is evaluated at the requested queries alone; an explicit tensor has all queries and is indexed
        part_allowed = part.allowed(few if part.structured else grid)
        has_all_queries = not part.structured and part_allowed.ndim > 1 and part_allowed.shape[-2] > 1
        allowed = allowed & (part_allowed[..., indices, :] if has_all_queries else part_allowed)
    # fused kernels imply Softmax, which needs no position information
    return align(scores, allowed, None).weights


def expand_like_values(
    scores: Float[Tensor, "... Q K"], values: Float[Tensor, "... K value"]
) -> Float[Tensor, "... Q K"]:
    """Broadcast scores to the batch shape of the values, so that masks can differ per batch element."""
    if values.shape[:-2] == scores.shape[:-2]:
        return scores
    # queries and keys without a batch, or with one of size 1, give such scores, while values and masks may have one
    return scores.expand(*torch.broadcast_shapes(scores.shape[:-2], values.shape[:-2]), *scores.shape[-2:])


def allowed_keys(
    mask: ComposableMask | None, scores: Float[Tensor, "*B Q K"], first_key: int
) -> Bool[Tensor, "..."] | None:
    """The mask as a boolean tensor that broadcasts to the scores."""
    if mask is None:
        return None
    # with a cache, or in a decoding step, the last query has the position of the last key
    first_query = first_key + scores.shape[-1] - scores.shape[-2]
    return mask.allowed(
        Grid.of(tuple(scores.shape), device=scores.device, first_query=first_query, first_key=first_key)
    )


def combined_mask(
    mask: ComposableMask | Tensor | None, key_mask: Bool[Tensor, "... K"] | None, num_head_axes: int = 0
) -> ComposableMask | None:
    """The mask, restricted to the keys that exist."""
    rule = None if mask is None else as_mask(mask)
    if key_mask is None:
        return rule
    keys = KeyMask(key_mask, num_head_axes)
    return keys if rule is None else rule & keys
