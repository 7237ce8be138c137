"""A tape of which a loop sees the last S cells: it begins with S that were carried here, of which not all need be real.

    h_t = tanh(q_t + K_{t-S..t-1}),   a_t = softmax(h_t v),   read_t = a_t C_{t-S..t-1};   then K_t and C_t are written

As in tape.py, cells lie in one buffer and two tokens bring back what reads said to them. Every read is of one shape.

Shapes: B rows, S cells seen, T cells written, H hidden units of the comparison, V size of a cell.
"""

from typing import Any

import torch
from jaxtyping import Bool, Float
from torch import Tensor

from regard.kernels.autograd import LOOP, differentiable_once
from regard.kernels.recurrent.look import ReadyMask
from regard.kernels.recurrent.tape import WrittenTape


class WindowTape(WrittenTape):
    """A tape that begins with these cells, with room for `num_cells` more."""

    def __init__(
        self,
        energy: Float[Tensor, " H"],
        keys: Float[Tensor, "B S H"],
        cells: Float[Tensor, "B S V"],
        real: Bool[Tensor, "B S"],
        *,
        num_cells: int,
    ) -> None:
        num_rows, self.span, size = cells.shape
        super().__init__(energy, num_rows=num_rows, num_cells=self.span + num_cells, size=size)
        self.keys[:, : self.span] = keys.detach()
        self.cells[:, : self.span] = cells.detach()
        self.tokens = _Carry.apply(keys.to(energy.dtype), cells.to(energy.dtype), energy.detach(), num_cells)
        # only the first read can find nothing at all: the others see what was just written
        self.first = ReadyMask(real)
        self.bias = torch.zeros(self.cells.shape[:2], dtype=torch.float32, device=real.device)
        self.bias[:, : self.span].masked_fill_(~real, float("-inf"))
        self.length = self.span

    @property
    def seen(self) -> slice:
        """The last S cells."""
        return slice(self.length - self.span, self.length)

    def weigh(self, scores: Float[Tensor, "B S"]) -> Float[Tensor, "B S"]:
        """Softmax over the real ones of the cells that are seen now; zeros where none is."""
        if self.length == self.span:
            return self.first.weigh(scores)
        bias = self.bias[:, self.seen]
        return torch.softmax(scores.to(torch.promote_types(scores.dtype, torch.float32)) + bias, dim=-1)


class _Carry(torch.autograd.Function):
    """The first tokens; what they bring back is the gradient of the carried cells and of their keys."""

    @staticmethod
    def forward(ctx: Any, keys: Tensor, cells: Tensor, energy: Tensor, num_cells: int) -> tuple[Tensor, Tensor]:
        ctx.set_materialize_grads(False)
        ctx.span = keys.shape[1]
        ctx.save_for_backward(energy)
        num_rows, length = keys.shape[0], ctx.span + num_cells
        return (
            keys.new_empty(1).expand(num_rows, length, keys.shape[2]),
            cells.new_empty(1).expand(num_rows, length, cells.shape[2]),
        )

    @staticmethod
    @differentiable_once(LOOP)
    def backward(ctx: Any, keys_sum: Tensor | None, cells_grad: Tensor | None) -> tuple[Tensor | None, ...]:
        (energy,) = ctx.saved_tensors
        keys_grad = None if keys_sum is None else keys_sum[:, : ctx.span] * energy
        return keys_grad, None if cells_grad is None else cells_grad[:, : ctx.span], None, None
