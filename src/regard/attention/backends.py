"""From a score to a fused kernel: the read a kernel is asked for, or every reason why the weights must be formed."""

from dataclasses import replace
from typing import Any

import torch
from jaxtyping import Float
from torch import Tensor

from regard.attention.alignments.softmax import Softmax
from regard.attention.masks.algebra import ComposableMask
from regard.contracts import Alignment, Lowered, LoweredSquare, LoweredSum, Score, active_recorders
from regard.kernels import Read, is_concrete
from regard.kernels.additive import AdditiveRequest
from regard.kernels.dot import DotRequest, expand_groups, join_groups, split_groups
from regard.kernels.gaussian import dot_product_form


def reasons_to_form(align: Alignment, return_weights: bool) -> list[str]:
    """Why the weights must be formed whatever the score."""
    reasons = []
    if return_weights:
        reasons.append("the weights are needed")
    if active_recorders():
        reasons.append("the model is being traced")
    if type(align) is not Softmax:
        reasons.append(f"{type(align).__name__} is not softmax, the one alignment fused kernels know")
    return reasons


def lower(
    score: Score,
    align: Alignment,
    queries: Float[Tensor, "... Q query"],
    keys: Float[Tensor, "... K prepared"],
    group_size: int = 1,
) -> Lowered | LoweredSum | str:
    """The score's lowering, if the alignment can use it; heads that share a key head are more queries of that head.

    A square is lowered to a dot product.
    """
    lowered = score.lower(queries if group_size == 1 else join_groups(queries, group_size), keys)
    if isinstance(lowered, LoweredSquare):
        lowered = dot_product_form(lowered)
    if group_size > 1 and not isinstance(lowered, str):
        lowered = replace(lowered, queries=split_groups(lowered.queries, group_size))
    if isinstance(lowered, Lowered) and lowered.drops_row_constant and not align.ignores_row_constant:
        return f"{type(align).__name__} sees the constant per row that the lowering drops"
    if isinstance(lowered, Lowered) and may_overflow(lowered):
        return "scores may overflow, or are not numbers, which only formed scores define"
    return lowered


def fused_request(
    lowered: Lowered | LoweredSum,
    values: Float[Tensor, "... K value"],
    *,
    mask: ComposableMask | None,
    dropout: float,
    first_key: int = 0,
    group_size: int = 1,
) -> Read:
    """The fused read of a lowered score; the last query meets the last key."""
    keys = lowered.keys
    if isinstance(lowered, LoweredSum):
        keys, values, group_size = expand_groups(keys, group_size), expand_groups(values, group_size), 1
    asked: dict[str, Any] = {
        "queries": lowered.queries, "keys": keys, "values": values, "mask": mask, "dropout": dropout,
        "first_query": first_key + values.shape[-2] - lowered.queries.shape[-2], "first_key": first_key,
        "group_size": group_size,
    }  # fmt: skip
    if isinstance(lowered, LoweredSum):
        return AdditiveRequest(**asked, energy=lowered.energy)
    return DotRequest(**asked, scale=lowered.scale, key_bias=lowered.key_bias, bias=lowered.bias)


def may_overflow(lowered: Lowered) -> bool:
    """Whether a score may pass the largest number, or is NaN already: fused kernels answer that with NaN or with zeros.

    Formed, infinite scores are defined and NaN stays visible. Asked on the CPU only.
    """
    sides = (lowered.queries.detach(), lowered.keys.detach())
    if not all(is_concrete(side) and side.numel() for side in sides):
        return False
    largest = [max(-float(low), float(high)) for low, high in map(torch.aminmax, sides)]
    wide = torch.finfo(torch.promote_types(sides[0].dtype, torch.float32))
    bound = largest[0] * largest[1] * sides[0].shape[-1] * max(abs(lowered.scale), 1.0)
    return not bound < wide.max
