"""The memory of an LSTMN cell as a buffer that a loop attends to by the additive score and appends to.

    h_t = tanh(q_t + K_{<t}),   a_t = softmax(h_t v),   context_t = a_t C_{<t};   then K_t and C_t are appended
    windowed: the same over the last S cells, K_{t-S..t-1} and C_{t-S..t-1}

Concatenated at every step, a memory of T cells would be copied T times, and T times more in the backward pass. Here
cells are written into one buffer. Its gradients are two buffers of the same size. They travel backward through the
graph as the gradients of two handles: tensors without memory of their own that every step takes and returns unchanged.
In the backward pass each attention adds its gradients of the cells that it attended to, and each append takes the
gradient of its own cell out, which by then has arrived from all later steps.

Shapes: B batch, T cells that are appended, S cells of a window, H size of a query, V size of a cell.
"""

from typing import Any

import torch
from jaxtyping import Bool, Float
from torch import Tensor

from regard.kernels.autograd import LOOP, differentiable_once
from regard.kernels.recurrent.stepwise_attention import PreparedMask, add_gradients, score_grad

NO_MASK = PreparedMask(None)


class MemoryBuffer:
    """An empty memory for `num_cells` cells of size `cell_size`, in the precision of the energy v."""

    def __init__(self, energy: Float[Tensor, " H"], *, batch_size: int, num_cells: int, cell_size: int) -> None:
        self.keys = energy.new_empty(batch_size, num_cells, energy.shape[0])
        self.cells = energy.new_empty(batch_size, num_cells, cell_size)
        self.energy = energy
        self.handles = (handle(energy, self.keys.shape), handle(energy, self.cells.shape))
        self.length = 0

    def attend(self, query: Float[Tensor, "B H"]) -> Float[Tensor, "B V"]:
        """Weighted sum of the cells so far; zeros where there is none."""
        if not self.length:
            return query.new_zeros(query.shape[0], self.cells.shape[2])
        context, *handles, self.energy = _Attend.apply(query.to(self.keys.dtype), *self.handles, self.energy, self)
        self.handles = (handles[0], handles[1])
        return context

    def append(self, key: Float[Tensor, "B H"], cell: Float[Tensor, "B V"]) -> None:
        """Write one more cell and its key."""
        key, cell = key.to(self.keys.dtype), cell.to(self.cells.dtype)
        self.handles = _Append.apply(key, cell, *self.handles, self.energy.detach(), self)
        self.length += 1

    @property
    def visible(self) -> slice:
        """The cells that the next step attends to."""
        return slice(self.length)

    def softmax(self, scores: Float[Tensor, "B visible"]) -> Float[Tensor, "B visible"]:
        """Weights over the visible cells."""
        return NO_MASK.softmax(scores)


class WindowedMemoryBuffer(MemoryBuffer):
    """A memory of which the last S cells are visible, beginning with S cells of which not all need be valid."""

    def __init__(
        self,
        energy: Float[Tensor, " H"],
        keys: Float[Tensor, "B S H"],
        cells: Float[Tensor, "B S V"],
        valid: Bool[Tensor, "B S"],
        *,
        num_cells: int,
    ) -> None:
        batch_size, self.span, cell_size = cells.shape
        super().__init__(energy, batch_size=batch_size, num_cells=self.span + num_cells, cell_size=cell_size)
        self.keys[:, : self.span] = keys.detach()
        self.cells[:, : self.span] = cells.detach()
        self.handles = _Initialize.apply(keys.to(energy.dtype), cells.to(energy.dtype), energy.detach(), num_cells)
        # only the first step may have no valid cell at all: the others attend to a cell of this loop
        self.first = PreparedMask(valid)
        self.bias = torch.zeros(self.cells.shape[:2], dtype=torch.float32, device=valid.device)
        self.bias[:, : self.span].masked_fill_(~valid, float("-inf"))
        self.length = self.span

    @property
    def visible(self) -> slice:
        """The last S cells."""
        return slice(self.length - self.span, self.length)

    def softmax(self, scores: Float[Tensor, "B S"]) -> Float[Tensor, "B S"]:
        """Weights over the visible cells that are valid; zeros where none is."""
        if self.length == self.span:
            return self.first.softmax(scores)
        scores = scores.to(torch.promote_types(scores.dtype, torch.float32))
        return torch.softmax(scores + self.bias[:, self.visible], dim=-1)


def handle(like: Tensor, shape: torch.Size) -> Tensor:
    """A tensor of a shape without memory for it: one number, expanded."""
    return like.new_empty(1).expand(shape)


class _Attend(torch.autograd.Function):
    """One attention; handles and energy are also outputs, unchanged, for the next step."""

    @staticmethod
    def forward(  # noqa: PLR0917 - autograd passes arguments by position
        ctx: Any, query: Tensor, key_handle: Tensor, cell_handle: Tensor, energy: Tensor, memory: MemoryBuffer
    ) -> tuple[Tensor, Tensor, Tensor, Tensor]:
        ctx.set_materialize_grads(False)
        ctx.visible = (slice(None), memory.visible)
        # not saved by save_for_backward, which forbids later writes to the buffer: they leave these cells unchanged
        ctx.cells = memory.cells[ctx.visible]
        hidden = (memory.keys[ctx.visible] + query.unsqueeze(1)).tanh_()
        weights = memory.softmax(hidden @ energy)
        ctx.save_for_backward(hidden, energy, weights)
        ctx.shapes = key_handle.shape, cell_handle.shape
        context = torch.bmm(weights.to(ctx.cells.dtype).unsqueeze(1), ctx.cells).squeeze(1)
        return context, key_handle, cell_handle, energy

    @staticmethod
    @differentiable_once(LOOP)
    def backward(
        ctx: Any, grad: Tensor | None, keys_sum: Tensor | None, cells_grad: Tensor | None, energy_grad: Tensor | None
    ) -> tuple[Tensor | None, ...]:
        if grad is None:
            return None, keys_sum, cells_grad, energy_grad, None
        hidden, energy, weights = ctx.saved_tensors
        # the last step of the loop is the first to come here, and makes the buffers
        keys_sum = hidden.new_zeros(ctx.shapes[0]) if keys_sum is None else keys_sum
        cells_grad = grad.new_zeros(ctx.shapes[1]) if cells_grad is None else cells_grad
        energy_grad = torch.zeros_like(energy) if energy_grad is None else energy_grad
        # in place: the handles form one chain of steps, so no other node of the graph holds these buffers
        cells_grad[ctx.visible].addcmul_(weights.to(grad.dtype).unsqueeze(2), grad.unsqueeze(1))
        scores_grad = score_grad(weights, ctx.cells, grad, None).to(hidden.dtype)
        query_grad = add_gradients(scores_grad, hidden, energy, keys_sum[ctx.visible], energy_grad)
        return query_grad, keys_sum, cells_grad, energy_grad, None


class _Append(torch.autograd.Function):
    """One write; in the backward pass the cell takes the gradients that later steps have added at its position."""

    @staticmethod
    def forward(  # noqa: PLR0917 - autograd passes arguments by position
        ctx: Any,
        key: Tensor,
        cell: Tensor,
        key_handle: Tensor,
        cell_handle: Tensor,
        energy: Tensor,
        memory: MemoryBuffer,
    ) -> tuple[Tensor, Tensor]:
        ctx.set_materialize_grads(False)
        ctx.position = (slice(None), memory.length)
        ctx.save_for_backward(energy)
        memory.keys[ctx.position] = key
        memory.cells[ctx.position] = cell
        return key_handle, cell_handle

    @staticmethod
    @differentiable_once(LOOP)
    def backward(ctx: Any, keys_sum: Tensor | None, cells_grad: Tensor | None) -> tuple[Tensor | None, ...]:
        (energy,) = ctx.saved_tensors
        # the buffer lacks the factor v, which is the same for all steps
        key_grad = None if keys_sum is None else keys_sum[ctx.position] * energy
        # a view: the nodes that run after this one belong to earlier steps, which add at earlier positions only
        cell_grad = None if cells_grad is None else cells_grad[ctx.position]
        return key_grad, cell_grad, keys_sum, cells_grad, None, None


class _Initialize(torch.autograd.Function):
    """The first handles; their gradients contain those of the initial cells and of their keys."""

    @staticmethod
    def forward(ctx: Any, keys: Tensor, cells: Tensor, energy: Tensor, num_cells: int) -> tuple[Tensor, Tensor]:
        ctx.set_materialize_grads(False)
        batch_size, ctx.span, _ = keys.shape
        ctx.save_for_backward(energy)
        length = ctx.span + num_cells
        return (
            handle(keys, torch.Size((batch_size, length, keys.shape[2]))),
            handle(cells, torch.Size((batch_size, length, cells.shape[2]))),
        )

    @staticmethod
    @differentiable_once(LOOP)
    def backward(ctx: Any, keys_sum: Tensor | None, cells_grad: Tensor | None) -> tuple[Tensor | None, ...]:
        (energy,) = ctx.saved_tensors
        keys_grad = None if keys_sum is None else keys_sum[:, : ctx.span] * energy
        return keys_grad, None if cells_grad is None else cells_grad[:, : ctx.span], None, None
