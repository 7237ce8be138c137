"""A GRU's elementwise work, forward and backward in few passes.

    r, z = sigmoid(a):  r * s and z;   then, b being made of r * s,   s' = s + z (tanh(b) - s)
    torch:  r, z = sigmoid(a + b),   n = tanh(a_n + r b_n),   s' = n + z (s - n),   a of the input and b of the state

Cho et al. 2014, section 2.3: the reset gate acts before the product. Torch's own acts after it, and its z is for what
is old.

Shapes: B rows, H hidden units.
"""

from typing import Any

import torch
from jaxtyping import Float
from torch import Tensor

from regard.kernels.autograd import LOOP, differentiable_once

sigmoid_backward, tanh_backward = torch.ops.aten.sigmoid_backward, torch.ops.aten.tanh_backward


def gru_reset(
    gates: Float[Tensor, "B two_H"], state: Float[Tensor, "B H"]
) -> tuple[Float[Tensor, "B H"], Float[Tensor, "B H"]]:
    """r * s and z, from what goes into the sigmoids."""
    return _Reset.apply(gates, state)


def gru_blend(
    new: Float[Tensor, "B H"], update: Float[Tensor, "B H"], state: Float[Tensor, "B H"]
) -> Float[Tensor, "B H"]:
    """s + z (tanh(b) - s)."""
    return _Blend.apply(new, update, state)


def gru_update(
    given: Float[Tensor, "B three_H"], made: Float[Tensor, "B three_H"], state: Float[Tensor, "B H"]
) -> Float[Tensor, "B H"]:
    """The next state of `nn.GRU`, from the input's and the state's share of r, z and n."""
    return _TorchUpdate.apply(given, made, state)


class _Reset(torch.autograd.Function):
    """r * s and z."""

    @staticmethod
    def forward(ctx: Any, gates: Tensor, state: Tensor) -> tuple[Tensor, Tensor]:
        both = torch.sigmoid(gates)
        reset, update = both.chunk(2, dim=-1)
        ctx.save_for_backward(both, state)
        return reset * state, update.contiguous()

    @staticmethod
    @differentiable_once(LOOP)
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
    @differentiable_once(LOOP)
    def backward(ctx: Any, grad: Tensor) -> tuple[Tensor, ...]:
        new, update, state = ctx.saved_tensors
        to_new = grad * update
        return tanh_backward(to_new, new), grad * (new - state), grad - to_new


class _TorchUpdate(torch.autograd.Function):
    """The new state by torch's equations."""

    @staticmethod
    def forward(ctx: Any, given: Tensor, made: Tensor, state: Tensor) -> Tensor:
        size = state.shape[1]
        both = (given[:, : 2 * size] + made[:, : 2 * size]).sigmoid_()
        reset, update = both.chunk(2, dim=-1)
        seen = made[:, 2 * size :]
        new = torch.addcmul(given[:, 2 * size :], reset, seen).tanh_()
        ctx.save_for_backward(both, new, seen, state)
        return torch.lerp(new, state, update)

    @staticmethod
    @differentiable_once(LOOP)
    def backward(ctx: Any, grad: Tensor) -> tuple[Tensor, ...]:
        both, new, seen, state = ctx.saved_tensors
        reset, update = both.chunk(2, dim=-1)
        to_state = grad * update
        to_new = tanh_backward(grad - to_state, new)
        to_both = sigmoid_backward(torch.cat([to_new * seen, grad * (state - new)], dim=-1), both)
        return torch.cat([to_both, to_new], dim=-1), torch.cat([to_both, to_new * reset], dim=-1), to_state
