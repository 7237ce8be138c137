"""From a score to a fused kernel: the request to a kernel, or every reason why the weights must be formed."""

from dataclasses import replace
from typing import Any

import torch
from jaxtyping import Float
from torch import Tensor, nn

from regard.attention.aggregations import WEIGHTED_SUM, WeightedSum
from regard.attention.alignments.softmax import Softmax
from regard.attention.masks.algebra import ComposableMask
from regard.attention.scores.with_bias import Biased
from regard.contracts import (
    Aggregation,
    Alignment,
    Lowered,
    LoweredSquare,
    LoweredSum,
    Score,
    active_recorders,
    has_own_call,
)
from regard.kernels import AttentionRequest, BackendChoice, choose
from regard.kernels.additive import AdditiveRequest
from regard.kernels.dot import DotRequest, expand_groups, join_groups, may_overflow, split_groups
from regard.kernels.gaussian import dot_product_form


def reasons_to_form(align: Alignment, return_weights: bool, aggregate: Aggregation = WEIGHTED_SUM) -> list[str]:
    """Why the weights must be formed, whatever the score."""
    reasons = []
    if return_weights:
        reasons.append("the weights are needed")
    # recorders receive the weights and may replace them
    if active_recorders():
        reasons.append("the model is being traced")
    # a subclass may compute something else
    if type(align) is not Softmax:
        reasons.append(f"{type(align).__name__} is not Softmax, the only alignment of fused kernels")
    elif has_own_call(align):
        reasons.append("Softmax has a forward or hooks of its own, which no fused kernel calls")
    if type(aggregate) is not WeightedSum:
        reasons.append(f"{type(aggregate).__name__} is not WeightedSum, the only aggregation of fused kernels")
    return reasons


def reasons_to_call(score: Score) -> list[str]:
    """Why the score itself must be called: its lowering may be another function."""
    # the bias of a position scheme is added to the scores of the score inside
    score = score.score if isinstance(score, Biased) else score
    name = type(score).__name__
    if has_own_call(score):
        return [f"{name} has a forward or hooks of its own, which no fused kernel calls"]
    if not lowers_itself(type(score)):
        return [f"{name} defines forward and inherits lower, which may be that of other scores"]
    return []


def lowers_itself(kind: type) -> bool:
    """True unless a subclass defines other scores than the class whose lowering it inherits."""
    definition = "forward" if issubclass(kind, nn.Module) else "__call__"
    # from the class up to those that it inherits from
    for base in kind.__mro__:
        if "lower" in vars(base) or definition in vars(base):
            return "lower" in vars(base)
    return True


def lower(
    score: Score,
    align: Alignment,
    queries: Float[Tensor, "... Q query"],
    keys: Float[Tensor, "... K prepared"],
    group_size: int = 1,
) -> Lowered | LoweredSum | str:
    """The score's lowering, or the reason why it cannot be used; a squared distance is lowered to a dot product.

    Query heads that share a key head are lowered as more queries of that head.
    """
    reasons = reasons_to_call(score)
    if reasons:
        return reasons[0]
    # heads of queries and keys must correspond: (.., H, Q, size) becomes (.., H / group, group * Q, size)
    queries = queries if group_size == 1 else join_groups(queries, group_size)
    lowered = score.lower(queries, keys)
    if isinstance(lowered, LoweredSquare):
        # no kernel computes squared distances; like `score.lower`, this may return a reason instead
        lowered = dot_product_form(lowered)
    if not isinstance(lowered, str):
        lowered = with_leading_dimensions(lowered, queries, keys)
    if group_size > 1 and not isinstance(lowered, str):
        # kernels take all query heads and the group size, while keys have one head per group
        lowered = replace(lowered, queries=split_groups(lowered.queries, group_size))
    if isinstance(lowered, Lowered) and lowered.drops_row_constant and not align.ignores_row_constant:
        return f"{type(align).__name__} depends on the constant per query that the lowering drops"
    if isinstance(lowered, Lowered) and may_overflow(
        lowered.queries, lowered.keys, lowered.scale, lowered.key_bias, lowered.bias
    ):
        return "scores may overflow or are NaN, which is defined only for formed scores"
    return lowered


def with_leading_dimensions(
    lowered: Lowered | LoweredSum, queries: Float[Tensor, "... Q query"], keys: Float[Tensor, "... K prepared"]
) -> Lowered | LoweredSum:
    """A score that ignores queries or keys may be lowered to vectors without their batch, which the context has."""
    if lowered.queries.shape[:-2] == queries.shape[:-2] and lowered.keys.shape[:-2] == keys.shape[:-2]:
        return lowered
    expanded = [
        vectors.expand(*torch.broadcast_shapes(vectors.shape[:-2], side.shape[:-2]), *vectors.shape[-2:])
        for vectors, side in ((lowered.queries, queries), (lowered.keys, keys))
    ]
    return replace(lowered, queries=expanded[0], keys=expanded[1])


def fused_request(
    lowered: Lowered | LoweredSum,
    values: Float[Tensor, "... K value"],
    *,
    mask: ComposableMask | None,
    dropout: float,
    first_key: int = 0,
    group_size: int = 1,
) -> AttentionRequest:
    """The request of a lowered score; the last query has the position of the last key."""
    keys = lowered.keys
    if isinstance(lowered, LoweredSum):
        # the kernels for sums through tanh support no grouped heads, so each key head is repeated
        keys, values, group_size = expand_groups(keys, group_size), expand_groups(values, group_size), 1
    arguments: dict[str, Any] = {
        "queries": lowered.queries, "keys": keys, "values": values, "mask": mask, "dropout": dropout,
        "first_query": first_key + values.shape[-2] - lowered.queries.shape[-2], "first_key": first_key,
        "group_size": group_size,
    }  # fmt: skip
    if isinstance(lowered, LoweredSum):
        return AdditiveRequest(**arguments, energy=lowered.energy)
    return DotRequest(**arguments, scale=lowered.scale, key_bias=lowered.key_bias, bias=lowered.bias)


def choose_backend(
    queries: Float[Tensor, "... Q query"],
    keys: Float[Tensor, "... K prepared"],
    values: Float[Tensor, "... K value"],
    *,
    score: Score,
    align: Alignment,
    aggregate: Aggregation = WEIGHTED_SUM,
    mask: ComposableMask | None,
    dropout: float = 0.0,
    return_weights: bool = False,
    first_key: int = 0,
    group_size: int = 1,
) -> BackendChoice:
    """The backend that `attend_prepared` runs for these arguments."""
    reasons = reasons_to_form(align, return_weights, aggregate)
    # lowered even where a reason exists already: the choice lists every reason
    lowered = lower(score, align, queries, keys, group_size)
    if isinstance(lowered, str):
        reasons.append(lowered)
    if reasons or isinstance(lowered, str):
        return BackendChoice("plain", (("fused", tuple(reasons)),))
    return choose(
        fused_request(lowered, values, mask=mask, dropout=dropout, first_key=first_key, group_size=group_size)
    )
