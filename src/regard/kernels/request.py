"""Request to a fused kernel: queries, keys, values and a mask, at given positions."""

from dataclasses import dataclass

import torch
from jaxtyping import Bool, Float
from torch import Tensor

from regard.contracts import Grid, Mask


@dataclass(frozen=True, kw_only=True)
class AttentionRequest:
    """Leading dimensions broadcast; subclasses define the score."""

    queries: Float[Tensor, "... Q query"]
    keys: Float[Tensor, "... K key"]
    values: Float[Tensor, "... K value"]
    mask: Mask | None = None
    first_query: int = 0
    first_key: int = 0
    dropout: float = 0.0
    group_size: int = 1
    """Number of query heads per key head: queries have H heads, keys and values H / group_size."""

    @property
    def shape(self) -> tuple[int, ...]:
        """Shape of the scores: leading dimensions, queries, keys."""
        leading, *others = (tensor.shape[:-2] for tensor in (self.queries, self.keys, self.values))
        # broadcast_shapes takes microseconds even for equal shapes
        if self.group_size == 1 and any(other != leading for other in others):
            leading = torch.broadcast_shapes(leading, *others)
        return (*leading, self.queries.shape[-2], self.keys.shape[-2])

    @property
    def is_triangle(self) -> bool:
        """True if the mask is the square causal triangle alone, which kernels implement without a mask."""
        square = self.queries.shape[-2] == self.keys.shape[-2] and self.first_query == self.first_key
        return square and self.mask is not None and self.mask.is_triangle

    def grid(self, num_queries: int) -> Grid:
        """Positions of the first `num_queries` queries and of all keys."""
        shape = (*self.shape[:-2], num_queries, self.shape[-1])
        return Grid.of(shape, device=self.queries.device, first_query=self.first_query, first_key=self.first_key)

    def allowed(self) -> Bool[Tensor, "..."] | None:
        """The mask as a boolean tensor that broadcasts to the scores; None if everything is allowed."""
        if self.mask is None:
            return None
        if self.mask.is_triangle and self.first_query >= self.first_key + self.keys.shape[-2] - 1:
            # in a decoding step the query comes after every key
            return None
        return self.mask.allowed(self.grid(self.shape[-2]))
