"""What a dot kernel is asked to do: softmax(scale * queries . keys + biases) over what the mask allows, @ values."""

from dataclasses import dataclass

from jaxtyping import Float
from torch import Tensor

from regard.kernels.read import Read


@dataclass(frozen=True, kw_only=True)
class DotRead(Read):
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
        rows = leading[0] if leading and self.mask.per_row else 1
        return rows * (num_queries if self.mask.per_query else 1) * num_keys
