"""One linear layer at every step of a loop, the gradient of its weight formed once, after all of them.

    y_t = x_t W^T + b + given_t,      dx_t = dy_t W,      dW = [dy_1; ..; dy_T]^T [x_1; ..; x_T]

Step by step, dW would be T thin products, each added to a matrix as large as the weight. Here every step's dy is handed
to one node of the graph through a slot: a tensor without content that the step pretends to read, so that its gradient
is dy. That node has kept the inputs, and runs when the last slot has come back. Later steps may have fewer rows.
"""

from collections.abc import Sequence
from typing import Any

import torch
from jaxtyping import Float
from torch import Tensor

from regard.kernels.autograd import LOOP, differentiable_once, product_dtype
from regard.kernels.product import product


class RepeatedLinear:
    """A layer for one loop with so many rows at each step; under autocast in its precision."""

    def __init__(
        self,
        weight: Float[Tensor, "output input"],
        bias: Float[Tensor, " output"] | None = None,
        *,
        sizes: Sequence[int],
    ) -> None:
        dtype = product_dtype(weight)
        self.inputs: list[Tensor] = []
        weight, self.bias = weight.to(dtype), None if bias is None else bias.detach().to(dtype)
        self.weight = weight.detach().contiguous()
        slots: Tensor = _Gather.apply(weight, bias, sum(sizes), self.inputs)
        self.slots = slots.split(list(sizes))

    def __call__(
        self, inputs: Float[Tensor, "B input"], given: Float[Tensor, "B output"] | None = None
    ) -> Float[Tensor, "B output"]:
        """The next step; `given` is added."""
        step = len(self.inputs)
        inputs = inputs.to(self.weight.dtype)
        # detached: the graph holds this list, and must not be held by it
        self.inputs.append(inputs.detach())
        return _Repeat.apply(inputs, self.slots[step], given, self.weight, self.bias)


class _Gather(torch.autograd.Function):
    """Weight and bias to empty slots; the slots' gradients to those of weight and bias."""

    @staticmethod
    def forward(ctx: Any, weight: Tensor, bias: Tensor | None, num_rows: int, inputs: list[Tensor]) -> Tensor:
        ctx.inputs = inputs
        ctx.bias_dtype = None if bias is None else bias.dtype
        return weight.new_empty(1).expand(num_rows, weight.shape[0])

    @staticmethod
    @differentiable_once(LOOP)
    def backward(ctx: Any, grads: Tensor) -> tuple[Tensor | None, ...]:
        inputs: list[Tensor] = ctx.inputs
        used = grads[: sum(map(len, inputs))]
        needed = ctx.needs_input_grad
        weight_grad = used.t() @ torch.cat(inputs) if needed[0] and inputs else None
        return weight_grad, used.sum(0, dtype=ctx.bias_dtype) if needed[1] else None, None, None


class _Repeat(torch.autograd.Function):
    """One step; what comes back goes to the inputs, to what was given, and as it is into the slot."""

    @staticmethod
    def forward(  # noqa: PLR0917 - autograd passes arguments by position
        ctx: Any, inputs: Tensor, slot: Tensor, given: Tensor | None, weight: Tensor, bias: Tensor | None
    ) -> Tensor:
        ctx.save_for_backward(weight)
        made = product(inputs, weight, bias)
        return made if given is None else made.add_(given)

    @staticmethod
    @differentiable_once(LOOP)
    def backward(ctx: Any, grad: Tensor) -> tuple[Tensor | None, ...]:
        (weight,) = ctx.saved_tensors
        back = product(grad, weight.t()) if ctx.needs_input_grad[0] else None
        return back, grad, grad if ctx.needs_input_grad[2] else None, None, None
