"""What every fused read is asked: the values at the places of some keys, by the queries that may read them."""

from dataclasses import dataclass

import torch
from jaxtyping import Bool, Float
from torch import Tensor

from regard.contracts import Grid, Mask


@dataclass(frozen=True, kw_only=True)
class Read:
    """One read; leading dimensions broadcast. The score is told by the kinds of reads."""

    queries: Float[Tensor, "... Q query"]
    keys: Float[Tensor, "... K key"]
    values: Float[Tensor, "... K value"]
    mask: Mask | None = None
    first_query: int = 0
    first_key: int = 0
    dropout: float = 0.0
    group_size: int = 1
    """How many query heads share one key head: queries have H heads, keys and values H / group_size."""

    @property
    def shape(self) -> tuple[int, ...]:
        """The scores' shape: leading dimensions, queries, keys."""
        leading, *others = (tensor.shape[:-2] for tensor in (self.queries, self.keys, self.values))
        # torch takes its time to find out that equal shapes are equal
        if self.group_size == 1 and any(other != leading for other in others):
            leading = torch.broadcast_shapes(leading, *others)
        return (*leading, self.queries.shape[-2], self.keys.shape[-2])

    @property
    def is_triangle(self) -> bool:
        """Whether the mask is the square triangle and nothing else, which kernels know by heart."""
        square = self.queries.shape[-2] == self.keys.shape[-2] and self.first_query == self.first_key
        return square and self.mask is not None and self.mask.is_triangle

    def grid(self, num_queries: int) -> Grid:
        """The positions of the first of these queries, and of all keys."""
        shape = (*self.shape[:-2], num_queries, self.shape[-1])
        return Grid.of(shape, device=self.queries.device, first_query=self.first_query, first_key=self.first_key)

    def allowed(self) -> Bool[Tensor, "..."] | None:
        """The mask as a boolean tensor that broadcasts to the scores."""
        if self.mask is None:
            return None
        if self.mask.is_triangle and self.first_query >= self.first_key + self.keys.shape[-2] - 1:
            # every query comes after every key: a decoder's step
            return None
        return self.mask.allowed(self.grid(self.shape[-2]))
