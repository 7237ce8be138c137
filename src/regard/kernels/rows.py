"""Packed tokens to the padded rectangle and back; each is the other's gradient, since no cell is used twice."""

from typing import Any

import torch
from jaxtyping import Float
from torch import Tensor

from regard.contracts import Packed


def spread_rows(states: Float[Tensor, "N size"], packed: Packed) -> Float[Tensor, "rows longest size"]:
    """Each token into its cell, zeros elsewhere."""
    num_rows = packed.offsets.shape[0] - 1
    return _Spread.apply(states, packed.cells, num_rows * packed.longest).unflatten(0, (num_rows, packed.longest))


def gather_rows(states: Float[Tensor, "rows longest size"], packed: Packed) -> Float[Tensor, "N size"]:
    """Each token out of its cell; what padding held is dropped."""
    return _Gather.apply(states.flatten(0, 1), packed.cells)


class _Spread(torch.autograd.Function):
    @staticmethod
    def forward(ctx: Any, states: Tensor, cells: Tensor, num_cells: int) -> Tensor:
        ctx.save_for_backward(cells)
        return states.new_zeros(num_cells, states.shape[1]).index_copy_(0, cells, states)

    @staticmethod
    def backward(ctx: Any, *grads: Tensor) -> tuple[Tensor | None, ...]:
        (cells,) = ctx.saved_tensors
        return grads[0].index_select(0, cells), None, None


class _Gather(torch.autograd.Function):
    @staticmethod
    def forward(ctx: Any, states: Tensor, cells: Tensor) -> Tensor:
        ctx.save_for_backward(cells)
        ctx.num_cells = states.shape[0]
        return states.index_select(0, cells)

    @staticmethod
    def backward(ctx: Any, *grads: Tensor) -> tuple[Tensor | None, ...]:
        (cells,) = ctx.saved_tensors
        return grads[0].new_zeros(ctx.num_cells, grads[0].shape[1]).index_copy_(0, cells, grads[0]), None
