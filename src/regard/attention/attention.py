"""Attention in three steps: score, align, aggregate.

    scores  = score(queries, keys)
    weights = align(scores, mask)
    context = aggregate(weights, values), by default weights @ values

Weights are formed when they are requested or traced. Otherwise, if the alignment is softmax, the aggregation the
weighted sum and the score has a lowering, a fused kernel computes the context without forming them.
"""

from collections.abc import Sequence

from jaxtyping import Bool, Float, Int
from torch import Tensor, nn

from regard.attention.aggregations import WEIGHTED_SUM
from regard.attention.alignments.softmax import Softmax
from regard.attention.backends import choose_backend
from regard.attention.checks import (
    check_aggregate,
    check_inputs,
    check_key_mask,
    check_memory,
    check_parts,
    check_probability,
    check_query_indices,
)
from regard.attention.masks.algebra import ComposableMask, as_mask
from regard.attention.prepared import attend_prepared, combined_mask
from regard.attention.scores.dot import ScaledDot
from regard.contracts import Aggregation, Alignment, Attended, Memory, PositionInfo, Score
from regard.kernels import BackendChoice

SCALED_DOT, SOFTMAX = ScaledDot(), Softmax()
"""Without parameters or state, so one instance of each serves every call."""


def attend(
    queries: Float[Tensor, "... Q query"],
    keys: Float[Tensor, "... K key"],
    values: Float[Tensor, "... K value"],
    *,
    score: Score = SCALED_DOT,
    align: Alignment = SOFTMAX,
    aggregate: Aggregation = WEIGHTED_SUM,
    mask: ComposableMask | Bool[Tensor, "..."] | None = None,
    position_info: PositionInfo | None = None,
    dropout: float = 0.0,
    return_weights: bool = False,
    weights_for_queries: Int[Tensor, " requested"] | Sequence[int] | None = None,
) -> Attended:
    """Attention of queries to keys and values; leading dimensions broadcast.

    `mask` is True where a query may attend: a mask such as `causal() & padding(lengths)`, or a boolean tensor that
    broadcasts to (.., Q, K). `dropout` applies to the weights whenever it is not 0, as in
    `torch.nn.functional.scaled_dot_product_attention`; returned weights are those after dropout. `weights_for_queries`
    returns the weights of a few queries, before dropout: only these are formed, and the context is computed as fast as
    without them. `aggregate` combines weights and values: the weighted sum, or MappedSum(function).
    """
    # checked before `prepare`, whose own error would not name the argument
    check_parts(score, align)
    check_aggregate(aggregate)
    check_inputs(queries, keys, values, score)
    check_probability("dropout", dropout)
    return attend_prepared(
        queries,
        score.prepare(keys),
        values,
        score=score,
        align=align,
        aggregate=aggregate,
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
    aggregate: Aggregation = WEIGHTED_SUM,
    mask: ComposableMask | Bool[Tensor, "..."] | None = None,
    position_info: PositionInfo | None = None,
    dropout: float = 0.0,
    return_weights: bool = False,
    weights_for_queries: Int[Tensor, " requested"] | Sequence[int] | None = None,
) -> BackendChoice:
    """The kernel that `attend` runs for these arguments, and every reason against the faster ones.

    "plain" forms all weights; the others are fused and never write them down: "sdpa", "blocked" and "flex" for scores
    that lower to a dot product, "sine", "exact" and "blocked" for additive ones.
    """
    check_parts(score, align)
    check_aggregate(aggregate)
    check_inputs(queries, keys, values, score)
    check_probability("dropout", dropout)
    # for its errors alone: weights of a few queries do not change the choice of the kernel
    check_query_indices(queries, weights_for_queries, return_weights)
    return choose_backend(
        queries,
        score.prepare(keys),
        values,
        score=score,
        align=align,
        aggregate=aggregate,
        mask=None if mask is None else as_mask(mask),
        dropout=dropout,
        return_weights=return_weights,
    )


class Attention(nn.Module):
    """Attention with any score and alignment, over a memory that is prepared once and used at every step."""

    def __init__(
        self,
        score: Score | None = None,
        align: Alignment | None = None,
        dropout: float = 0.0,
        *,
        aggregate: Aggregation = WEIGHTED_SUM,
    ) -> None:
        super().__init__()
        # instances of its own, not the shared ones: a hook on a shared module would act on every attention
        self.score = ScaledDot() if score is None else score
        self.align = Softmax() if align is None else align
        check_parts(self.score, self.align)
        check_aggregate(aggregate)
        self.aggregate = aggregate
        check_probability("dropout", dropout)
        self.dropout = dropout

    def extra_repr(self) -> str:
        """Settings that print shows."""
        return f"dropout={self.dropout}"

    def prepare_memory(
        self,
        states: Float[Tensor, "... K key"],
        values: Float[Tensor, "... K value"] | None = None,
        mask: Bool[Tensor, "... K"] | None = None,
    ) -> Memory:
        """Prepare the keys; the states are the values too, unless these are given. `mask`: True = key exists."""
        values = states if values is None else values
        # there are no queries yet: the states take their role in the check of devices, dtypes and shapes
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
        weights_for_queries: Int[Tensor, " requested"] | Sequence[int] | None = None,
    ) -> Attended:
        """Attend to the memory; `mask` is combined with the memory's own. Other arguments as in `attend`."""
        check_memory(memory, "Attention")
        # prepared keys may differ from the queries in size: the score itself checks that
        check_inputs(queries, memory.keys, memory.values, self.score)
        return attend_prepared(
            queries,
            memory.keys,
            memory.values,
            score=self.score,
            align=self.align,
            aggregate=self.aggregate,
            mask=combined_mask(mask, memory.mask),
            position_info=position_info,
            # `attend_prepared` drops whenever the rate is not 0, so the mode is taken into account here
            dropout=self.dropout if self.training else 0.0,
            return_weights=return_weights,
            weights_for_queries=weights_for_queries,
        )

    def which_backend(
        self,
        queries: Float[Tensor, "... Q query"],
        memory: Memory,
        *,
        mask: ComposableMask | Bool[Tensor, "..."] | None = None,
        position_info: PositionInfo | None = None,
        return_weights: bool = False,
        weights_for_queries: Int[Tensor, " requested"] | Sequence[int] | None = None,
    ) -> BackendChoice:
        """The kernel that `forward` runs for these arguments, and every reason against the faster ones."""
        check_memory(memory, "Attention")
        check_inputs(queries, memory.keys, memory.values, self.score)
        check_query_indices(queries, weights_for_queries, return_weights)
        return choose_backend(
            queries,
            memory.keys,
            memory.values,
            score=self.score,
            align=self.align,
            aggregate=self.aggregate,
            mask=combined_mask(mask, memory.mask),
            dropout=self.dropout if self.training else 0.0,
            return_weights=return_weights,
        )
