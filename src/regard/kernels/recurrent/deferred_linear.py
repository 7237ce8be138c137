"""A linear layer that is applied at every step of a loop, with one product for the gradient of its weight.

    y_t = x_t W^T + b + offset_t,      dx_t = dy_t W,      dW = [dy_1; ..; dy_T]^T [x_1; ..; x_T]

Autograd would form dW as T thin products, each added to a matrix of the weight's size. Here every step hands its dy to
one node of the graph through a slot: a tensor without memory of its own that the step takes as an argument and does not
use, and whose gradient is defined as dy. The node holds the inputs of all steps. Autograd runs it once the gradients of
all slots have arrived, when both factors of dW are complete.

Shapes: B batch, T steps.
"""

from typing import Any

import torch
import torch.nn.functional as F
from jaxtyping import Float
from torch import Tensor

from regard.kernels.autograd import LOOP, differentiable_once, product_dtype


class DeferredLinear:
    """A layer for one loop of `num_steps` steps with `batch_size` inputs each; under autocast in its precision."""

    def __init__(
        self,
        weight: Float[Tensor, "output input"],
        bias: Float[Tensor, " output"] | None = None,
        *,
        num_steps: int,
        batch_size: int,
    ) -> None:
        dtype = product_dtype(weight)
        self.inputs: list[Tensor] = []
        weight, self.bias = weight.to(dtype), None if bias is None else bias.detach().to(dtype)
        self.weight = weight.detach().contiguous()
        slots: Tensor = _Collect.apply(weight, bias, (num_steps, batch_size), self.inputs)
        self.slots = slots.unbind(0)

    def __call__(
        self, inputs: Float[Tensor, "B input"], offset: Float[Tensor, "B output"] | None = None
    ) -> Float[Tensor, "B output"]:
        """The layer's output at the next step, plus `offset`."""
        step = len(self.inputs)
        inputs = inputs.to(self.weight.dtype)
        # detached: the graph holds this list, and a list that held the graph would keep it in memory
        self.inputs.append(inputs.detach())
        return _Apply.apply(inputs, self.slots[step], offset, self.weight, self.bias)


class _Collect(torch.autograd.Function):
    """Weight and bias to slots; the slots' gradients to the gradients of weight and bias."""

    @staticmethod
    def forward(ctx: Any, weight: Tensor, bias: Tensor | None, shape: tuple[int, int], inputs: list[Tensor]) -> Tensor:
        ctx.inputs = inputs
        ctx.bias_dtype = None if bias is None else bias.dtype
        # one number, repeated without memory: only the shape and the place in the graph matter
        return weight.new_empty(1).expand(*shape, weight.shape[0])

    @staticmethod
    @differentiable_once(LOOP)
    def backward(ctx: Any, grads: Tensor) -> tuple[Tensor | None, ...]:
        inputs: list[Tensor] = ctx.inputs
        # a loop may end early: slots without a step have zeros, and no inputs
        output_grads = grads[: len(inputs)].flatten(0, 1)
        needed = ctx.needs_input_grad
        weight_grad = output_grads.t() @ torch.cat(inputs) if needed[0] and inputs else None
        return weight_grad, output_grads.sum(0, dtype=ctx.bias_dtype) if needed[1] else None, None, None


class _Apply(torch.autograd.Function):
    """One step; its output's gradient goes to the inputs, to the offset, and unchanged into the slot."""

    @staticmethod
    def forward(  # noqa: PLR0917 - autograd passes arguments by position
        ctx: Any, inputs: Tensor, slot: Tensor, offset: Tensor | None, weight: Tensor, bias: Tensor | None
    ) -> Tensor:
        ctx.save_for_backward(weight)
        outputs = F.linear(inputs, weight, bias)
        return outputs if offset is None else outputs.add_(offset)

    @staticmethod
    @differentiable_once(LOOP)
    def backward(ctx: Any, grad: Tensor) -> tuple[Tensor | None, ...]:
        (weight,) = ctx.saved_tensors
        input_grad = grad @ weight if ctx.needs_input_grad[0] else None
        return input_grad, grad, grad if ctx.needs_input_grad[2] else None, None, None
