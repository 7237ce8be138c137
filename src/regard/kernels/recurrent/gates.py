"""Elementwise work of a GRU and of an LSTM, forward and backward in few passes over the data.

    GRU:   r, z = sigmoid(a);  r * s and z;   then with b computed from r * s,   s' = s + z (tanh(b) - s)
    LSTM:  i, f, o = sigmoid(a_i, a_f, a_o),   g = tanh(a_g),   c' = f c + i g (+ extra),   h' = o tanh(c')

Cho et al. 2014, section 2.3, where the reset gate acts before the matrix product. https://arxiv.org/abs/1406.1078
Hochreiter and Schmidhuber 1997, with the forget gate of Gers et al. 2000. https://doi.org/10.1162/neco.1997.9.8.1735

Shapes: B batch, H hidden units.
"""

from typing import Any

import torch
from jaxtyping import Float
from torch import Tensor

from regard.contracts import torch_private
from regard.kernels.autograd import LOOP, differentiable_once

GateOrder = tuple[int, int, int, int]
TORCH_ORDER: GateOrder = (0, 1, 2, 3)
"""Positions of i, f, g and o among the four parts of the pre-activations, as in nn.LSTM."""
LSTMN_ORDER: GateOrder = (0, 1, 3, 2)
"""The same where the new memory g is the last part, as in the LSTMN cell."""


def gru_reset(
    gates: Float[Tensor, "B two_H"], state: Float[Tensor, "B H"]
) -> tuple[Float[Tensor, "B H"], Float[Tensor, "B H"]]:
    """r * s and z from the pre-activations of both gates."""
    return _Reset.apply(gates, state)


def gru_blend(
    candidate: Float[Tensor, "B H"], update: Float[Tensor, "B H"], state: Float[Tensor, "B H"]
) -> Float[Tensor, "B H"]:
    """s + z (tanh(b) - s)."""
    return _Blend.apply(candidate, update, state)


def lstm_update(
    gates: Float[Tensor, "B four_H"],
    cell: Float[Tensor, "B H"],
    extra: Float[Tensor, "B H"] | None = None,
    *,
    order: GateOrder = TORCH_ORDER,
) -> tuple[Float[Tensor, "B H"], Float[Tensor, "B H"]]:
    """Hidden state and cell after one step; `extra` is added to the cell."""
    return _Update.apply(gates, cell, extra, order)


class _Reset(torch.autograd.Function):
    """r * s and z."""

    @staticmethod
    def forward(ctx: Any, gates: Tensor, state: Tensor) -> tuple[Tensor, Tensor]:
        activations = torch.sigmoid(gates)
        reset, update = activations.chunk(2, dim=-1)
        ctx.save_for_backward(activations, state)
        return reset * state, update.contiguous()

    @staticmethod
    @differentiable_once(LOOP)
    def backward(ctx: Any, product_grad: Tensor, update_grad: Tensor) -> tuple[Tensor, ...]:
        activations, state = ctx.saved_tensors
        size = state.shape[1]
        # one pass of the sigmoid's derivative over both gates side by side
        grads = torch.cat([product_grad * state, update_grad], dim=-1)
        return torch_private.sigmoid_backward(grads, activations), product_grad * activations[:, :size]


class _Blend(torch.autograd.Function):
    """The new state."""

    @staticmethod
    def forward(ctx: Any, candidate: Tensor, update: Tensor, state: Tensor) -> Tensor:
        candidate = torch.tanh(candidate)
        ctx.save_for_backward(candidate, update, state)
        return torch.addcmul(state, update, candidate - state)

    @staticmethod
    @differentiable_once(LOOP)
    def backward(ctx: Any, grad: Tensor) -> tuple[Tensor, ...]:
        candidate, update, state = ctx.saved_tensors
        candidate_grad = grad * update
        return torch_private.tanh_backward(candidate_grad, candidate), grad * (candidate - state), grad - candidate_grad


def parts_in_order(gates: Float[Tensor, "B four_H"], order: GateOrder) -> list[Float[Tensor, "B H"]]:
    """Views of the parts of i, f, g and o."""
    parts = gates.chunk(4, dim=-1)
    return [parts[position] for position in order]


class _Update(torch.autograd.Function):
    """An LSTM's step; one sigmoid runs over all four parts, and its value for g is not used."""

    @staticmethod
    def forward(ctx: Any, gates: Tensor, cell: Tensor, extra: Tensor | None, order: GateOrder) -> tuple[Tensor, Tensor]:
        activations = torch.sigmoid(gates)
        input_gate, forget_gate, _, output_gate = parts_in_order(activations, order)
        candidate = torch.tanh(parts_in_order(gates, order)[2])
        next_cell = torch.addcmul(forget_gate * cell, input_gate, candidate)
        if extra is not None:
            next_cell = next_cell + extra
        squashed = torch.tanh(next_cell)
        ctx.save_for_backward(activations, candidate, cell, squashed)
        ctx.order = order
        return output_gate * squashed, next_cell

    @staticmethod
    @differentiable_once(LOOP)
    def backward(ctx: Any, hidden_grad: Tensor, cell_grad: Tensor) -> tuple[Tensor | None, ...]:
        activations, candidate, cell, squashed = ctx.saved_tensors
        input_gate, forget_gate, _, output_gate = parts_in_order(activations, ctx.order)
        total = cell_grad + torch_private.tanh_backward(hidden_grad * output_gate, squashed)
        # the gates' gradients are written side by side, then multiplied by the sigmoid's derivative in one pass
        grads = torch.empty_like(activations)
        input_grad, forget_grad, _, output_grad = parts_in_order(grads, ctx.order)
        torch.mul(total, candidate, out=input_grad)
        torch.mul(total, cell, out=forget_grad)
        torch.mul(hidden_grad, squashed, out=output_grad)
        grads = torch_private.sigmoid_backward(grads, activations)
        # g is a tanh: its part, uninitialised until here, is overwritten
        parts_in_order(grads, ctx.order)[2].copy_(torch_private.tanh_backward(total * input_gate, candidate))
        return grads, total * forget_gate, total if ctx.needs_input_grad[2] else None, None
