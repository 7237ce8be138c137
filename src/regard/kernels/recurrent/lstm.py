"""An LSTM's elementwise work, forward and backward in few passes.

    i, f, o = sigmoid(a_i, a_f, a_o),   g = tanh(a_g)
    c' = f c + i g (+ more),   h' = o tanh(c')

Hochreiter and Schmidhuber 1997, with the forget gate of Gers et al. 2000.

Shapes: B rows, H hidden units.
"""

from typing import Any

import torch
from jaxtyping import Float
from torch import Tensor

from regard.kernels.autograd import LOOP, differentiable_once

sigmoid_backward, tanh_backward = torch.ops.aten.sigmoid_backward, torch.ops.aten.tanh_backward

TORCH_ORDER = (0, 1, 2, 3)
"""Where i, f, g and o stand among the gates of nn.LSTM."""
TAPE_ORDER = (0, 1, 3, 2)
"""The same where the new memory comes last."""


def lstm_update(
    gates: Float[Tensor, "B four_H"],
    cell: Float[Tensor, "B H"],
    more: Float[Tensor, "B H"] | None = None,
    *,
    order: tuple[int, int, int, int] = TORCH_ORDER,
) -> tuple[Float[Tensor, "B H"], Float[Tensor, "B H"]]:
    """Hidden state and cell after one step; `more` is added to the cell."""
    return _Update.apply(gates, cell, more, order)


def in_order(gates: Float[Tensor, "B four_H"], order: tuple[int, int, int, int]) -> list[Float[Tensor, "B H"]]:
    """Views of what goes into i, f, g and o."""
    chunks = gates.chunk(4, dim=-1)
    return [chunks[place] for place in order]


class _Update(torch.autograd.Function):
    """One sigmoid over all gates, that of the new memory unused."""

    @staticmethod
    def forward(
        ctx: Any, gates: Tensor, cell: Tensor, more: Tensor | None, order: tuple[int, int, int, int]
    ) -> tuple[Tensor, Tensor]:
        opened = torch.sigmoid(gates)
        taken, kept, _, shown = in_order(opened, order)
        new = torch.tanh(in_order(gates, order)[2])
        after = torch.addcmul(kept * cell, taken, new)
        if more is not None:
            after = after + more
        bent = torch.tanh(after)
        ctx.save_for_backward(opened, new, cell, bent)
        ctx.order = order
        return shown * bent, after

    @staticmethod
    @differentiable_once(LOOP)
    def backward(ctx: Any, hidden_grad: Tensor, cell_grad: Tensor) -> tuple[Tensor | None, ...]:
        opened, new, cell, bent = ctx.saved_tensors
        taken, kept, _, shown = in_order(opened, ctx.order)
        total = cell_grad + tanh_backward(hidden_grad * shown, bent)
        grads = torch.empty_like(opened)
        to_taken, to_kept, _, to_shown = in_order(grads, ctx.order)
        torch.mul(total, new, out=to_taken)
        torch.mul(total, cell, out=to_kept)
        torch.mul(hidden_grad, bent, out=to_shown)
        grads = sigmoid_backward(grads, opened)
        # the new memory is no sigmoid's
        in_order(grads, ctx.order)[2].copy_(tanh_backward(total * taken, new))
        return grads, total * kept, total if ctx.needs_input_grad[2] else None, None
