"""Aggregations: weights and values to the context.

    WeightedSum   context_t = sum_j weights_tj v_j
    MappedSum     context_t = sum_{allowed j} f_out(weights_tj v_j)

MappedSum applies an output function to each weighted value before the sum; with the identity it is WeightedSum. Only
keys that may be attended to are summed, because f_out(0) need not be 0: a masked key contributes nothing, and an
allowed key whose weight is 0 (as from sparsemax) contributes f_out(0).
"""

from collections.abc import Callable
from dataclasses import dataclass

import torch
from jaxtyping import Bool, Float
from torch import Tensor, nn


# not a module: it would be a child of every attention, and printed with it
@dataclass(frozen=True)
class WeightedSum:
    """The sum of the values times their weights; the only aggregation of fused kernels."""

    def __call__(
        self,
        weights: Float[Tensor, "*#B Q K"],
        values: Float[Tensor, "*#B K value"],
        allowed: Bool[Tensor, "..."] | None = None,
    ) -> Float[Tensor, "... Q value"]:
        """weights @ values; masked keys have weight 0."""
        # under autocast a softmax returns float32
        return weights.to(values.dtype) @ values


WEIGHTED_SUM = WeightedSum()
"""Without parameters or state, so one instance serves every attention."""


class MappedSum(nn.Module):
    """The sum of f_out(weight times value) over the allowed keys; forms a vector for each query and key.

    `function` maps (.., value) to (.., output), each vector alone. Its derivative at 0 must be finite.
    """

    def __init__(self, function: Callable[[Tensor], Tensor]) -> None:
        super().__init__()
        if not callable(function):
            raise TypeError(
                f"function is {function!r}, expected a function of tensors, such as torch.tanh or a module."
            )
        self.function = function

    def extra_repr(self) -> str:
        """Settings that print shows."""
        # a module is printed as a child
        return "" if isinstance(self.function, nn.Module) else getattr(self.function, "__name__", repr(self.function))

    def forward(
        self,
        weights: Float[Tensor, "*#B Q K"],
        values: Float[Tensor, "*#B K value"],
        allowed: Bool[Tensor, "..."] | None = None,
    ) -> Float[Tensor, "... Q output"]:
        """The function of each weighted value, and their sum over the allowed keys."""
        # (.., Q, K, 1) times (.., 1, K, value)
        weights, values = weights.to(values.dtype).unsqueeze(-1), values.unsqueeze(-3)
        if allowed is None:
            return self.function(weights * values).sum(dim=-2)
        allowed = allowed.expand(torch.broadcast_shapes(allowed.shape, weights.shape[-3:-1])).unsqueeze(-1)
        # both are replaced before the function, so that what is masked reaches neither its value nor its gradient
        weighted = weights.masked_fill(~allowed, 0.0) * values.masked_fill(~allowed, 0.0)
        return self.function(weighted).masked_fill(~allowed, 0.0).sum(dim=-2)
