"""A tape that a loop writes to and reads by the additive score, cell by cell.

    h_t = tanh(q_t + K_{<t}),   a_t = softmax(h_t v),   read_t = a_t C_{<t};   then K_t and C_t are written

Joined to a longer and longer tensor, a tape of T cells would be copied T times, and T times more on the way back. Here
cells are written into one buffer. Two tokens without content go through every read and write; their gradients are two
buffers of the tape's own size, to which each read adds what it says to earlier cells, and from which each write, on the
way back, takes what later reads have said to its own. Later steps may have fewer rows: the first ones.

Shapes: B rows, T cells in all, H hidden units of the comparison, V size of a cell.
"""

from typing import Any

import torch
from jaxtyping import Float
from torch import Tensor

from regard.kernels.autograd import LOOP, differentiable_once
from regard.kernels.recurrent.additive_look import add_up
from regard.kernels.recurrent.look import ReadyMask, score_grad

EVERYTHING = ReadyMask(None)


class WrittenTape:
    """An empty tape with room for `num_cells`; its energy and the dtype of what will be written."""

    def __init__(self, energy: Float[Tensor, " H"], *, num_rows: int, num_cells: int, size: int) -> None:
        self.keys = energy.new_empty(num_rows, num_cells, energy.shape[0])
        self.cells = energy.new_empty(num_rows, num_cells, size)
        self.energy = energy
        self.tokens = (energy.new_empty(1).expand_as(self.keys), energy.new_empty(1).expand_as(self.cells))
        self.length = 0

    def read(self, query: Float[Tensor, "n H"]) -> Float[Tensor, "n V"]:
        """Look at all cells so far; zeros where there is none."""
        if not self.length:
            return query.new_zeros(query.shape[0], self.cells.shape[2])
        context, *tokens, self.energy = _Read.apply(query.to(self.keys.dtype), *self.tokens, self.energy, self)
        self.tokens = (tokens[0], tokens[1])
        return context

    @property
    def seen(self) -> slice:
        """The cells that a read looks at now."""
        return slice(self.length)

    def weigh(self, scores: Float[Tensor, "n seen"]) -> Float[Tensor, "n seen"]:
        """Softmax over the cells that are seen now."""
        return EVERYTHING.weigh(scores)

    def write(self, key: Float[Tensor, "n H"], cell: Float[Tensor, "n V"]) -> None:
        """One more cell."""
        given = (key.to(self.keys.dtype), cell.to(self.cells.dtype))
        self.tokens = _Write.apply(*given, *self.tokens, self.energy.detach(), self)
        self.length += 1


class _Read(torch.autograd.Function):
    """One read; the tokens go through it."""

    @staticmethod
    def forward(  # noqa: PLR0917 - autograd passes arguments by position
        ctx: Any, query: Tensor, key_token: Tensor, cell_token: Tensor, energy: Tensor, tape: WrittenTape
    ) -> tuple[Tensor, Tensor, Tensor, Tensor]:
        ctx.set_materialize_grads(False)
        ctx.seen = (slice(len(query)), tape.seen)
        # not among the saved tensors, which may not be written to: later writes leave these cells alone
        ctx.cells = tape.cells[ctx.seen]
        hidden = (tape.keys[ctx.seen] + query.unsqueeze(1)).tanh_()
        weights = tape.weigh(hidden @ energy)
        ctx.save_for_backward(hidden, energy, weights)
        ctx.shapes = key_token.shape, cell_token.shape
        context = torch.bmm(weights.to(ctx.cells.dtype).unsqueeze(1), ctx.cells).squeeze(1)
        return context, key_token, cell_token, energy

    @staticmethod
    @differentiable_once(LOOP)
    def backward(
        ctx: Any, grad: Tensor | None, keys_sum: Tensor | None, cells_grad: Tensor | None, energy_grad: Tensor | None
    ) -> tuple[Tensor | None, ...]:
        if grad is None:
            return None, keys_sum, cells_grad, energy_grad, None
        hidden, energy, weights = ctx.saved_tensors
        keys_sum = hidden.new_zeros(ctx.shapes[0]) if keys_sum is None else keys_sum
        cells_grad = grad.new_zeros(ctx.shapes[1]) if cells_grad is None else cells_grad
        energy_grad = torch.zeros_like(energy) if energy_grad is None else energy_grad
        cells_grad[ctx.seen].addcmul_(weights.to(grad.dtype).unsqueeze(2), grad.unsqueeze(1))
        to_scores = score_grad(weights, ctx.cells, grad, None).to(hidden.dtype)
        query_grad = add_up(to_scores, hidden, energy, keys_sum[ctx.seen], energy_grad)
        return query_grad, keys_sum, cells_grad, energy_grad, None


class _Write(torch.autograd.Function):
    """One write; on the way back the cell takes what was said to it."""

    @staticmethod
    def forward(  # noqa: PLR0917 - autograd passes arguments by position
        ctx: Any,
        key: Tensor,
        cell: Tensor,
        key_token: Tensor,
        cell_token: Tensor,
        energy: Tensor,
        tape: WrittenTape,
    ) -> tuple[Tensor, Tensor]:
        ctx.set_materialize_grads(False)
        ctx.place = (slice(len(key)), tape.length)
        ctx.save_for_backward(energy)
        tape.keys[ctx.place] = key
        tape.cells[ctx.place] = cell
        return key_token, cell_token

    @staticmethod
    @differentiable_once(LOOP)
    def backward(ctx: Any, keys_sum: Tensor | None, cells_grad: Tensor | None) -> tuple[Tensor | None, ...]:
        (energy,) = ctx.saved_tensors
        key_grad = None if keys_sum is None else keys_sum[ctx.place] * energy
        cell_grad = None if cells_grad is None else cells_grad[ctx.place]
        return key_grad, cell_grad, keys_sum, cells_grad, None, None
