"""Attention in three steps: score, align, aggregate.

    scores  = score(queries, keys)
    weights = align(scores, mask)
    context = weights @ values

Asked for weights, or traced, attention forms them; not asked, it hands the same maths to a fused kernel where the score
lowers to one and the alignment is softmax.
"""

from collections.abc import Callable, Sequence
from dataclasses import replace
from functools import partial

import torch
import torch.nn.functional as F
from jaxtyping import Bool, Float, Int
from torch import Tensor, nn

from regard.attention.alignments.softmax import Softmax
from regard.attention.backends import fused_request, lower, reasons_to_form
from regard.attention.checks import (
    check_inputs,
    check_key_mask,
    check_mask,
    check_memory,
    check_parts,
    check_probability,
    check_query_indices,
    check_scores,
)
from regard.attention.masks.algebra import ComposableMask, as_mask
from regard.attention.masks.padding import Real
from regard.attention.scores.dot import ScaledDot
from regard.attention.trace import tell
from regard.contracts import Alignment, Attended, AttentionMap, Grid, Memory, PositionInfo, Score, active_recorders
from regard.kernels import Choice, attend_fused, choose
from regard.kernels.dot import expand_groups

SCALED_DOT, SOFTMAX = ScaledDot(), Softmax()
"""Without parameters or state, so that one of each serves every call."""


def attend(
    queries: Float[Tensor, "... Q query"],
    keys: Float[Tensor, "... K key"],
    values: Float[Tensor, "... K value"],
    *,
    score: Score = SCALED_DOT,
    align: Alignment = SOFTMAX,
    mask: ComposableMask | Bool[Tensor, "..."] | None = None,
    position_info: PositionInfo | None = None,
    dropout: float = 0.0,
    return_weights: bool = False,
    weights_for_queries: Int[Tensor, " chosen"] | Sequence[int] | None = None,
) -> Attended:
    """Read the values whose keys answer the queries; any leading dimensions, broadcasting.

    `mask` is True where a query may attend: a mask such as `causal() & padding(lengths)`, or a boolean tensor that
    broadcasts to (.., Q, K). `dropout` acts on the weights whenever it is not 0, as in torch's own function; the
    weights returned are those that were used. `weights_for_queries` names a few queries whose weights are wanted (before
    dropout): theirs alone are formed, beside a context that is read as fast as without them.
    """
    check_parts(score, align)
    check_inputs(queries, keys, values, score)
    check_probability("dropout", dropout)
    return read(
        queries,
        score.prepare(keys),
        values,
        score=score,
        align=align,
        mask=None if mask is None else as_mask(mask),
        position_info=position_info,
        dropout=dropout,
        return_weights=return_weights,
        weights_for_queries=weights_for_queries,
    )


def which_backend(
    queries: Float[Tensor, "... Q query"],
    keys: Float[Tensor, "... K key"],
    values: Float[Tensor, "... K value"],
    *,
    score: Score = SCALED_DOT,
    align: Alignment = SOFTMAX,
    mask: ComposableMask | Bool[Tensor, "..."] | None = None,
    position_info: PositionInfo | None = None,
    dropout: float = 0.0,
    return_weights: bool = False,
    weights_for_queries: Int[Tensor, " chosen"] | Sequence[int] | None = None,
) -> Choice:
    """Which kernel `attend` would use for these arguments, and every reason against the faster ones.

    "plain" forms all weights; the others are fused and never write them down: "sdpa", "blocked" and "flex" for scores
    that lower to a dot product, "sine", "exact" and "blocked" for additive ones.
    """
    check_parts(score, align)
    check_inputs(queries, keys, values, score)
    check_probability("dropout", dropout)
    check_query_indices(queries, weights_for_queries, return_weights)
    reasons = reasons_to_form(align, return_weights)
    lowered = lower(score, align, queries, score.prepare(keys))
    if isinstance(lowered, str):
        return Choice("plain", (("fused", (*reasons, lowered)),))
    if reasons:
        return Choice("plain", (("fused", tuple(reasons)),))
    rule = None if mask is None else as_mask(mask)
    return choose(fused_request(lowered, values, mask=rule, dropout=dropout))


def read(
    queries: Float[Tensor, "... Q query"],
    keys: Float[Tensor, "... K prepared"],
    values: Float[Tensor, "... K value"],
    *,
    score: Score,
    align: Alignment,
    mask: ComposableMask | None,
    position_info: PositionInfo | None = None,
    dropout: float = 0.0,
    return_weights: bool = False,
    weights_for_queries: Int[Tensor, " chosen"] | Sequence[int] | None = None,
    first_key: int = 0,
    group_size: int = 1,
    extra: Callable[[Tensor], Tensor] | None = None,
) -> Attended:
    """`attend` on prepared keys, the first of which stands at position `first_key` of its sequence.

    With a `group_size` each key head serves that many query heads. `extra` is what a position scheme adds to the
    context, given the weights.
    """
    if mask is not None:
        check_mask(mask, queries)
    rows = check_query_indices(queries, weights_for_queries, return_weights)
    forms = bool(reasons_to_form(align, return_weights or extra is not None))
    lowered = None if forms else lower(score, align, queries, keys, group_size)
    if lowered is not None and not isinstance(lowered, str):
        asked = fused_request(lowered, values, mask=mask, dropout=dropout, first_key=first_key, group_size=group_size)
        context = attend_fused(asked)
        if rows is None:
            return Attended(context=context)
        keys = expand_groups(keys, group_size)
        chosen = weights_for(
            queries, keys, rows, score=score, align=align, mask=mask, first_key=first_key, values=values
        )
        return Attended(context=context, weights=chosen)
    position_info = position_info or PositionInfo()
    if position_info.queries is None:
        position_info = replace(position_info, queries=queries)
    keys, values = expand_groups(keys, group_size), expand_groups(values, group_size)
    scores = score(queries, keys)
    check_scores(scores, score, queries, keys)
    scores = for_each_value(scores, values)
    allows = allowed(mask, scores, first_key)
    aligned = align(scores, allows, position_info)
    # what is returned is what was used: dropout before, not after
    weights = F.dropout(aligned.weights, dropout) if dropout else aligned.weights
    context = aggregate(weights, values, extra)
    if active_recorders():
        seen = AttentionMap(
            queries=queries, keys=keys, values=values, scores=scores, weights=weights, context=context,
            allowed=allows, score=score, align=align, position_info=position_info,
        )  # fmt: skip
        changed = tell(seen, partial(aggregate, values=values, extra=extra))
        if changed is not None:
            weights, context = changed
            aligned = replace(aligned, weights=weights)
    if rows is not None:
        return Attended(context=context, weights=aligned.weights[..., rows, :], log_prob=aligned.log_prob)
    return Attended(context=context, weights=weights if return_weights else None, log_prob=aligned.log_prob)


def aggregate(
    weights: Float[Tensor, "... Q K"], values: Float[Tensor, "... K value"], extra: Callable[[Tensor], Tensor] | None
) -> Float[Tensor, "... Q value"]:
    """What the weights read of the values, and what a position scheme adds."""
    context = weights.to(values.dtype) @ values
    return context if extra is None else context + extra(weights)


def weights_for(
    queries: Float[Tensor, "... Q query"],
    keys: Float[Tensor, "... K prepared"],
    rows: Int[Tensor, " chosen"],
    *,
    score: Score,
    align: Alignment,
    mask: ComposableMask | None,
    first_key: int,
    values: Float[Tensor, "... K value"],
) -> Float[Tensor, "... chosen K"]:
    """What these queries look at, and nobody else."""
    scores = for_each_value(score(queries[..., rows, :], keys), values)
    if mask is None:
        return align(scores, None, None).weights
    shape = (*scores.shape[:-2], queries.shape[-2], scores.shape[-1])
    grid = Grid.of(shape, device=scores.device, first_query=first_key + shape[-1] - shape[-2], first_key=first_key)
    few = replace(grid, queries=grid.queries[rows])
    allows = torch.ones((), dtype=torch.bool, device=scores.device)
    for part in mask.parts():
        # a tensor is there already, for every query; a rule is asked for these alone
        found = part.allowed(few if part.structured else grid)
        own = not part.structured and found.ndim > 1 and found.shape[-2] > 1
        allows = allows & (found[..., rows, :] if own else found)
    return align(scores, allows, None).weights


def for_each_value(scores: Float[Tensor, "... Q K"], values: Float[Tensor, "... K value"]) -> Float[Tensor, "... Q K"]:
    """Rows that only the values tell apart may still be masked apart."""
    if values.ndim <= scores.ndim:
        return scores
    return scores.expand(*torch.broadcast_shapes(scores.shape[:-2], values.shape[:-2]), *scores.shape[-2:])


def allowed(mask: ComposableMask | None, scores: Float[Tensor, "*B Q K"], first_key: int) -> Bool[Tensor, "..."] | None:
    """The mask as a boolean tensor over these scores."""
    if mask is None:
        return None
    first_query = first_key + scores.shape[-1] - scores.shape[-2]
    grid = Grid.of(tuple(scores.shape), device=scores.device, first_query=first_query, first_key=first_key)
    return mask.allowed(grid)


class Attention(nn.Module):
    """Any score with any alignment, over a memory prepared once and read many times."""

    def __init__(self, score: Score | None = None, align: Alignment | None = None, dropout: float = 0.0) -> None:
        super().__init__()
        self.score = score or ScaledDot()
        self.align = align or Softmax()
        check_parts(self.score, self.align)
        check_probability("dropout", dropout)
        self.dropout = dropout

    def prepare_memory(
        self,
        states: Float[Tensor, "... K key"],
        values: Float[Tensor, "... K value"] | None = None,
        mask: Bool[Tensor, "... K"] | None = None,
    ) -> Memory:
        """Prepare the keys once; the states themselves are read unless values are given. `mask`: True = real key."""
        values = states if values is None else values
        check_inputs(states, states, values, self.score)
        check_key_mask(mask, states)
        return Memory(keys=self.score.prepare(states), values=values, mask=mask)

    def forward(
        self,
        queries: Float[Tensor, "... Q query"],
        memory: Memory,
        *,
        mask: ComposableMask | Bool[Tensor, "..."] | None = None,
        position_info: PositionInfo | None = None,
        return_weights: bool = False,
        weights_for_queries: Int[Tensor, " chosen"] | Sequence[int] | None = None,
    ) -> Attended:
        """Read the memory; `mask` narrows what the memory's own mask allows, weights are asked for as in `attend`."""
        check_memory(memory, "Attention")
        check_inputs(queries, memory.keys, memory.values, self.score)
        return read(
            queries,
            memory.keys,
            memory.values,
            score=self.score,
            align=self.align,
            mask=narrowed(mask, memory.mask),
            position_info=position_info,
            dropout=self.dropout if self.training else 0.0,
            return_weights=return_weights,
            weights_for_queries=weights_for_queries,
        )


def narrowed(
    mask: ComposableMask | Tensor | None, real: Bool[Tensor, "... K"] | None, num_head_axes: int = 0
) -> ComposableMask | None:
    """What the mask allows of the keys that are there."""
    rule = None if mask is None else as_mask(mask)
    if real is None:
        return rule
    there = Real(real, num_head_axes)
    return there if rule is None else rule & there
