"""Dot-product scores and attention as the formula, and the request of a dot kernel.

What a dot kernel is asked to do: softmax(scale * queries . keys + biases) over what the mask allows, @ values.

Dot-product scores and attention as the formula has them.

    context = softmax(scale * queries keys^T + key_bias + bias) values

Kernels are held to this: outputs and gradients err at most twice as much against float64.
"""

from dataclasses import dataclass

from jaxtyping import Float
from torch import Tensor

from regard.kernels.request import AttentionRequest
from regard.kernels.softmax import masked_softmax


@dataclass(frozen=True, kw_only=True)
class DotRequest(AttentionRequest):
    """Queries and keys have one size; `bias` broadcasts to the scores."""

    scale: float
    key_bias: Float[Tensor, "... K"] | None = None
    bias: Float[Tensor, "..."] | None = None

    @property
    def is_plain_causal(self) -> bool:
        """Whether the mask is the square triangle and nothing is added to the scores."""
        return self.bias is None and self.is_triangle

    @property
    def written_size(self) -> int:
        """How many booleans the mask takes when it is written out."""
        if self.mask is None:
            return 0
        *leading, num_queries, num_keys = self.shape
        rows = leading[0] if leading and self.mask.per_example else 1
        return rows * (num_queries if self.mask.per_query else 1) * num_keys


def dot_scores(
    queries: Float[Tensor, "*#B Q size"], keys: Float[Tensor, "*#B K size"], scale: float = 1.0
) -> Float[Tensor, "*B Q K"]:
    """scale * q . k for every pair; the queries are scaled, being fewer than the pairs."""
    return (queries * scale if scale != 1.0 else queries) @ keys.transpose(-2, -1)


def join_groups(queries: Float[Tensor, "... H Q size"], group_size: int) -> Float[Tensor, "... G GQ size"]:
    """Heads that share a key head as more queries of that head."""
    return queries.unflatten(-3, (-1, group_size)).flatten(-3, -2)


def split_groups(queries: Float[Tensor, "... G GQ size"], group_size: int) -> Float[Tensor, "... H Q size"]:
    """Each head its own again."""
    return queries.unflatten(-2, (group_size, -1)).flatten(-4, -3)


def expand_groups(tensor: Float[Tensor, "... K size"], group_size: int) -> Float[Tensor, "... K size"]:
    """Each key head repeated for the query heads it serves."""
    return tensor if group_size == 1 else tensor.repeat_interleave(group_size, dim=-3)


def attend_plain(read: DotRequest) -> Float[Tensor, "... Q value"]:
    """Forms every weight."""
    keys, values = (expand_groups(tensor, read.group_size) for tensor in (read.keys, read.values))
    scores = dot_scores(read.queries, keys, read.scale)
    if read.key_bias is not None:
        scores = scores + expand_groups(read.key_bias.unsqueeze(-2), read.group_size)
    if read.bias is not None:
        scores = scores + read.bias
    return masked_softmax(scores, read.allowed()) @ values
