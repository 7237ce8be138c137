"""What a dot kernel is asked to do: softmax(scale * queries . keys + biases) over what the mask allows, @ values."""

from dataclasses import dataclass

import torch
from jaxtyping import Bool, Float
from torch import Tensor

from regard.contracts import Grid, Mask


@dataclass(frozen=True, kw_only=True)
class DotRead:
    """One fused read; leading dimensions broadcast, `bias` broadcasts to the scores."""

    queries: Float[Tensor, "... Q size"]
    keys: Float[Tensor, "... K size"]
    values: Float[Tensor, "... K value"]
    scale: float
    key_bias: Float[Tensor, "... K"] | None
    bias: Float[Tensor, "..."] | None
    mask: Mask | None
    first_query: int
    first_key: int
    dropout: float
    group_size: int = 1
    """How many query heads share one key head: queries have H heads, keys and values H / group_size."""
    folded: int = 0
    """How many of the last features are a key's bias in two parts, against ones of the queries, and zeros."""

    @property
    def shape(self) -> tuple[int, ...]:
        """The scores' shape: leading dimensions, queries, keys."""
        leading, *others = (tensor.shape[:-2] for tensor in (self.queries, self.keys, self.values))
        # torch takes its time to find out that equal shapes are equal
        if self.group_size == 1 and any(other != leading for other in others):
            leading = torch.broadcast_shapes(leading, *others)
        return (*leading, self.queries.shape[-2], self.keys.shape[-2])

    @property
    def is_plain_causal(self) -> bool:
        """Whether the mask is the square triangle and nothing else, which kernels know by heart."""
        if self.bias is not None:
            return False
        square = self.queries.shape[-2] == self.keys.shape[-2] and self.first_query == self.first_key
        return square and self.mask is not None and self.mask.is_triangle

    @property
    def written_size(self) -> int:
        """How many booleans the mask takes when it is written out."""
        if self.mask is None:
            return 0
        *leading, num_queries, num_keys = self.shape
        rows = leading[0] if leading and self.mask.per_row else 1
        return rows * (num_queries if self.mask.per_query else 1) * num_keys

    def allowed(self) -> Bool[Tensor, "..."] | None:
        """The mask as a boolean tensor that broadcasts to the scores."""
        if self.mask is None:
            return None
        if self.mask.is_triangle and self.first_query >= self.first_key + self.keys.shape[-2] - 1:
            # every query comes after every key: a decoder's step
            return None
        grid = Grid.of(self.shape, device=self.queries.device, first_query=self.first_query, first_key=self.first_key)
        return self.mask.allowed(grid)
