"""Dot-product scores and attention as the formula has them, and the request of a dot kernel.

    context = softmax(scale * queries keys^T + key_bias + bias) values

Vaswani et al. 2017, section 3.2.1. https://arxiv.org/abs/1706.03762

Kernels are tested against `attend_plain`: outputs and gradients err at most twice as much against float64.
"""

from dataclasses import dataclass, replace

from jaxtyping import Float
from torch import Tensor

from regard.kernels.request import AttentionRequest
from regard.kernels.softmax import masked_softmax


@dataclass(frozen=True, kw_only=True)
class DotRequest(AttentionRequest):
    """Queries and keys have the same size; `bias` broadcasts to the scores."""

    scale: float
    key_bias: Float[Tensor, "... K"] | None = None
    bias: Float[Tensor, "..."] | None = None

    @property
    def is_plain_causal(self) -> bool:
        """Whether the mask is the square triangle and nothing is added to the scores."""
        return self.bias is None and self.is_triangle

    @property
    def mask_size(self) -> int:
        """The number of booleans of the mask as a tensor."""
        if self.mask is None:
            return 0
        *leading, num_queries, num_keys = self.shape
        batch_size = leading[0] if leading and self.mask.per_example else 1
        return batch_size * (num_queries if self.mask.per_query else 1) * num_keys


def dot_scores(
    queries: Float[Tensor, "*#B Q size"], keys: Float[Tensor, "*#B K size"], scale: float = 1.0
) -> Float[Tensor, "*B Q K"]:
    """scale * q . k for every pair."""
    # the queries are scaled, not the scores: there are fewer of them
    return (queries * scale if scale != 1.0 else queries) @ keys.transpose(-2, -1)


def with_positive_scale(request: DotRequest) -> DotRequest:
    """The same scores with a scale above 0.

    A kernel may apply the scale after its mask, where a negative one would turn -inf into +inf and 0 into NaN.
    """
    if request.scale > 0:
        return request
    if request.scale < 0:
        return replace(request, queries=-request.queries, scale=-request.scale)
    # 0 has no sign to move, and NaN is not hidden
    return replace(request, queries=request.queries * request.scale, scale=1.0)


def join_groups(queries: Float[Tensor, "... H Q size"], group_size: int) -> Float[Tensor, "... G GQ size"]:
    """Lay the query heads that share a key head end to end, as more queries of that head."""
    return queries.unflatten(-3, (-1, group_size)).flatten(-3, -2)


def split_groups(queries: Float[Tensor, "... G GQ size"], group_size: int) -> Float[Tensor, "... H Q size"]:
    """Undo `join_groups`."""
    return queries.unflatten(-2, (group_size, -1)).flatten(-4, -3)


def expand_groups(tensor: Float[Tensor, "... K size"], group_size: int) -> Float[Tensor, "... K size"]:
    """Repeat each key head for the query heads that it serves."""
    return tensor if group_size == 1 else tensor.repeat_interleave(group_size, dim=-3)


def attend_plain(request: DotRequest) -> Float[Tensor, "... Q value"]:
    """The formula; forms every weight."""
    keys, values = (expand_groups(tensor, request.group_size) for tensor in (request.keys, request.values))
    scores = dot_scores(request.queries, keys, request.scale)
    if request.key_bias is not None:
        scores = scores + expand_groups(request.key_bias.unsqueeze(-2), request.group_size)
    if request.bias is not None:
        scores = scores + request.bias
    weights = masked_softmax(scores, request.allowed())
    # a bias may have more precision than the values
    return weights.to(values.dtype) @ values
