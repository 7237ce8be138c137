"""From a score to a fused kernel: whether the weights must be formed, and if not, the read a kernel is asked for."""

from dataclasses import replace

import torch
from jaxtyping import Float
from torch import Tensor

from regard.attention.alignments import Softmax
from regard.attention.masks import Rule
from regard.attention.trace import listeners
from regard.contracts import Align, Lowered, Score
from regard.kernels import DotRead


def reasons_to_form(align: Align, return_weights: bool) -> list[str]:
    """Why the weights must be formed whatever the score; none of these, and a fused kernel may serve."""
    reasons = []
    if return_weights:
        reasons.append("the weights were asked for")
    if listeners():
        reasons.append("the model is being traced")
    if type(align) is not Softmax:
        reasons.append(f"{type(align).__name__} is not softmax, the one alignment fused kernels know")
    return reasons


def lower(
    score: Score, queries: Float[Tensor, "... Q query"], keys: Float[Tensor, "... K prepared"], group_size: int
) -> Lowered | None:
    """The score's lowering; query heads that share a key head are lowered as more queries of that head."""
    if group_size == 1:
        return score.lower(queries, keys)
    lowered = score.lower(queries.unflatten(-3, (-1, group_size)).flatten(-3, -2), keys)
    if lowered is None:
        return None
    return replace(lowered, queries=lowered.queries.unflatten(-2, (group_size, -1)).flatten(-4, -3))


def dot_read(
    lowered: Lowered,
    values: Float[Tensor, "... K value"],
    *,
    mask: Rule | None,
    dropout: float,
    first_key: int = 0,
    group_size: int = 1,
) -> DotRead:
    """The fused read of a lowered score; the last query meets the last key."""
    return DotRead(
        queries=lowered.queries,
        keys=lowered.keys,
        values=values,
        scale=lowered.scale,
        key_bias=lowered.key_bias,
        bias=lowered.bias,
        mask=mask,
        first_query=first_key + values.shape[-2] - lowered.queries.shape[-2],
        first_key=first_key,
        dropout=dropout,
        group_size=group_size,
    )


def is_spoilt(context: Tensor, *inputs: Tensor) -> bool:
    """Whether scores overflowed to infinity inside a fused kernel, whose softmax is then NaN; formed, they are defined.

    Asked on the CPU only, where looking at a number costs no synchronisation.
    """
    if context.device.type != "cpu" or torch.compiler.is_compiling():
        return False
    # under vmap, or with fake tensors, there is no number to look at
    if type(context) is not Tensor or torch._C._functorch.is_functorch_wrapped_tensor(context):
        return False
    return bool(context.detach().sum().isnan()) and not any(bool(given.isnan().any()) for given in inputs)
