"""Attention in three steps: score, align, aggregate.

    scores  = score(queries, keys)
    weights = align(scores, mask)
    context = weights @ values

Asked for weights, or traced, attention forms them; not asked, it hands the same maths to a fused kernel where the score
lowers to a dot product and the alignment is softmax.
"""

from dataclasses import replace

import torch.nn.functional as F
from jaxtyping import Bool, Float
from torch import Tensor, nn

from regard.attention.alignments import Softmax
from regard.attention.check import check_inputs, check_parts, check_probability
from regard.attention.lowering import dot_read, is_spoilt, lower, reasons_to_form
from regard.attention.masks import Rule, as_mask
from regard.attention.scores import ScaledDot
from regard.attention.trace import AttentionMap, listeners
from regard.contracts import Align, Attended, Grid, Look, Memory, Score
from regard.kernels import Choice, choose, read_dot, spread_groups

SCALED_DOT, SOFTMAX = ScaledDot(), Softmax()
"""Without parameters or state, so that one of each serves every call."""


def attend(
    queries: Float[Tensor, "... Q query"],
    keys: Float[Tensor, "... K key"],
    values: Float[Tensor, "... K value"],
    *,
    score: Score = SCALED_DOT,
    align: Align = SOFTMAX,
    mask: Rule | Bool[Tensor, "..."] | None = None,
    look: Look | None = None,
    dropout: float = 0.0,
    return_weights: bool = False,
) -> Attended:
    """Read the values whose keys answer the queries; any leading dimensions, broadcasting.

    `mask` is True where a query may attend: a mask such as `causal() & padding(lengths)`, or a boolean tensor that
    broadcasts to (.., Q, K). `dropout` acts on the weights whenever it is not 0, as in torch's own function; the
    weights returned are those that were used.
    """
    check_parts(score, align)
    check_inputs(queries, keys, values)
    check_probability("dropout", dropout)
    return read(
        queries,
        score.prepare(keys),
        values,
        score=score,
        align=align,
        mask=None if mask is None else as_mask(mask),
        look=look,
        dropout=dropout,
        return_weights=return_weights,
    )


def explain(
    queries: Float[Tensor, "... Q query"],
    keys: Float[Tensor, "... K key"],
    values: Float[Tensor, "... K value"],
    *,
    score: Score = SCALED_DOT,
    align: Align = SOFTMAX,
    mask: Rule | Bool[Tensor, "..."] | None = None,
    dropout: float = 0.0,
    return_weights: bool = False,
) -> Choice:
    """Which kernel `attend` would use for these arguments, and every reason against the faster ones."""
    check_parts(score, align)
    check_inputs(queries, keys, values)
    prepared = score.prepare(keys)
    lowered = score.lower(queries, prepared)
    reasons = reasons_to_form(align, return_weights)
    if lowered is None:
        reasons.append(score.forms_scores or f"{type(score).__name__} does not lower to a dot product")
    elif lowered.drops_row_constant and not align.ignores_row_constant:
        reasons.append(f"{type(align).__name__} sees the constant per row that the lowering drops")
    if reasons or lowered is None:
        return Choice("plain", (("fused", tuple(reasons)),))
    rule = None if mask is None else as_mask(mask)
    return choose(dot_read(lowered, values, mask=rule, dropout=dropout))


def read(
    queries: Float[Tensor, "... Q query"],
    keys: Float[Tensor, "... K prepared"],
    values: Float[Tensor, "... K value"],
    *,
    score: Score,
    align: Align,
    mask: Rule | None,
    look: Look | None = None,
    dropout: float = 0.0,
    return_weights: bool = False,
    first_key: int = 0,
    group_size: int = 1,
) -> Attended:
    """`attend` on prepared keys, the first of which stands at position `first_key` of its sequence.

    With a `group_size` each key head serves that many query heads.
    """
    if mask is not None:
        check_mask(mask, queries)
    lowered = None if reasons_to_form(align, return_weights) else lower(score, queries, keys, group_size)
    if lowered is not None:
        asked = dot_read(lowered, values, mask=mask, dropout=dropout, first_key=first_key, group_size=group_size)
        context = read_dot(asked)
        if not is_spoilt(context, queries, keys, values):
            return Attended(context=context)
    look = look or Look()
    if look.queries is None:
        look = replace(look, queries=queries)
    keys, values = spread_groups(keys, group_size), spread_groups(values, group_size)
    scores = score(queries, keys)
    aligned = align(scores, allowed(mask, scores, first_key), look)
    # what is returned is what was used: dropout before, not after
    weights = F.dropout(aligned.weights, dropout) if dropout else aligned.weights
    context = weights.to(values.dtype) @ values
    for listener in listeners():
        seen = {"queries": queries, "keys": keys, "scores": scores, "weights": weights, "context": context}
        listener.record(AttentionMap(**{name: tensor.detach() for name, tensor in seen.items()}))
    return Attended(context=context, weights=weights if return_weights else None, log_prob=aligned.log_prob)


def check_mask(mask: Rule, queries: Tensor) -> None:
    """A boolean tensor inside a mask must live where the queries do."""
    for tensor in mask.tensors():
        if tensor.device != queries.device:
            raise ValueError(
                f"mask is on {tensor.device} but queries are on {queries.device}. Move it with .to(queries.device)."
            )


def allowed(mask: Rule | None, scores: Float[Tensor, "*B Q K"], first_key: int) -> Bool[Tensor, "..."] | None:
    """The mask as a boolean tensor over these scores."""
    if mask is None:
        return None
    first_query = first_key + scores.shape[-1] - scores.shape[-2]
    grid = Grid.of(tuple(scores.shape), device=scores.device, first_query=first_query, first_key=first_key)
    return mask.allowed(grid)


class Attention(nn.Module):
    """Any score with any alignment, over a memory prepared once and read many times."""

    def __init__(self, score: Score | None = None, align: Align | None = None, dropout: float = 0.0) -> None:
        super().__init__()
        self.score = score or ScaledDot()
        self.align = align or Softmax()
        check_parts(self.score, self.align)
        check_probability("dropout", dropout)
        self.dropout = dropout

    def remember(
        self,
        states: Float[Tensor, "... K key"],
        values: Float[Tensor, "... K value"] | None = None,
        mask: Bool[Tensor, "... K"] | None = None,
    ) -> Memory:
        """Prepare the keys once; the states themselves are read unless values are given. `mask`: True = real key."""
        values = states if values is None else values
        check_inputs(states, states, values)
        if mask is not None:
            check_key_mask(mask, states)
        return Memory(keys=self.score.prepare(states), values=values, mask=mask)

    def forward(
        self,
        queries: Float[Tensor, "... Q query"],
        memory: Memory,
        *,
        mask: Rule | Bool[Tensor, "..."] | None = None,
        look: Look | None = None,
        return_weights: bool = False,
    ) -> Attended:
        """Read the memory; `mask` narrows what the memory's own mask allows."""
        check_inputs(queries, memory.keys, memory.values)
        return read(
            queries,
            memory.keys,
            memory.values,
            score=self.score,
            align=self.align,
            mask=narrowed(mask, memory.mask),
            look=look,
            dropout=self.dropout if self.training else 0.0,
            return_weights=return_weights,
        )


def check_key_mask(mask: Tensor, states: Tensor) -> None:
    """One boolean per key."""
    as_mask(mask)
    if mask.shape[-1] != states.shape[-2]:
        raise ValueError(
            f"mask has shape {tuple(mask.shape)}, expected one boolean per key: {tuple(states.shape[:-1])}."
        )


def narrowed(mask: Rule | Tensor | None, key_mask: Bool[Tensor, "*B K"] | None, heads: int = 0) -> Rule | None:
    """Both masks at once; the key mask (batch, K) is spread over `heads` head dimensions and the queries."""
    rule = None if mask is None else as_mask(mask)
    if key_mask is None:
        return rule
    real = as_mask(key_mask[(..., *(None,) * (heads + 1), slice(None))])
    return real if rule is None else rule & real
