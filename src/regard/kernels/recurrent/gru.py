"""A GRU's elementwise work, forward and backward in few passes.

    r, z = sigmoid(a):  r * s and z;   then, b being made of r * s,   s' = s + z (tanh(b) - s)

Cho et al. 2014, section 2.3: the reset gate acts before the product. Torch's own, which acts after it, is not here.

Shapes: B rows, H hidden units.
"""

from typing import Any

import torch
from jaxtyping import Float
from torch import Tensor
from torch.autograd.function import once_differentiable

from regard.kernels.recurrent.product import is_plain_here

sigmoid_backward, tanh_backward = torch.ops.aten.sigmoid_backward, torch.ops.aten.tanh_backward


def gru_reset(
    gates: Float[Tensor, "B two_H"], state: Float[Tensor, "B H"]
) -> tuple[Float[Tensor, "B H"], Float[Tensor, "B H"]]:
    """r * s and z, from what goes into the sigmoids."""
    if is_plain_here():
        reset, update = torch.sigmoid(gates).chunk(2, dim=-1)
        return reset * state, update
    return _Reset.apply(gates, state)


def gru_blend(
    new: Float[Tensor, "B H"], update: Float[Tensor, "B H"], state: Float[Tensor, "B H"]
) -> Float[Tensor, "B H"]:
    """s + z (tanh(b) - s)."""
    if is_plain_here():
        return state + update * (torch.tanh(new) - state)
    return _Blend.apply(new, update, state)


class _Reset(torch.autograd.Function):
    """r * s and z."""

    @staticmethod
    def forward(ctx: Any, gates: Tensor, state: Tensor) -> tuple[Tensor, Tensor]:
        both = torch.sigmoid(gates)
        reset, update = both.chunk(2, dim=-1)
        ctx.save_for_backward(both, state)
        return reset * state, update.contiguous()

    @staticmethod
    @once_differentiable
    def backward(ctx: Any, seen_grad: Tensor, update_grad: Tensor) -> tuple[Tensor, ...]:
        both, state = ctx.saved_tensors
        size = state.shape[1]
        grads = torch.cat([seen_grad * state, update_grad], dim=-1)
        return sigmoid_backward(grads, both), seen_grad * both[:, :size]


class _Blend(torch.autograd.Function):
    """The new state."""

    @staticmethod
    def forward(ctx: Any, new: Tensor, update: Tensor, state: Tensor) -> Tensor:
        new = torch.tanh(new)
        ctx.save_for_backward(new, update, state)
        return torch.addcmul(state, update, new - state)

    @staticmethod
    @once_differentiable
    def backward(ctx: Any, grad: Tensor) -> tuple[Tensor, ...]:
        new, update, state = ctx.saved_tensors
        to_new = grad * update
        return tanh_backward(to_new, new), grad * (new - state), grad - to_new
