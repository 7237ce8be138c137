"""Packed tokens to the padded rectangle and back; each is the other's gradient, since no cell is used twice.

Eager code scatters into zeros. Compiled code reads every cell's token instead, which fuses with what comes next; the
compiler of torch 2.11 also drops the gradient behind a scatter into zeros.
"""

from typing import Any

import torch
from jaxtyping import Float, Int
from torch import Tensor

from regard.contracts import PackedTokens


def pad_packed(states: Float[Tensor, "N size"], packed: PackedTokens) -> Float[Tensor, "rows longest size"]:
    """Each token into its cell, zeros elsewhere."""
    num_rows = packed.cu_seqlens.shape[0] - 1
    spread: Tensor = _Spread.apply(states, packed.padded_indices, read_tokens(packed), num_rows * packed.max_seqlen)
    return spread.unflatten(0, (num_rows, packed.max_seqlen))


def pack_padded(states: Float[Tensor, "rows longest size"], packed: PackedTokens) -> Float[Tensor, "N size"]:
    """Each token out of its cell; what padding held is dropped."""
    gathered: Tensor = _Gather.apply(states.flatten(0, 1), packed.padded_indices, read_tokens(packed))
    return gathered


def read_tokens(packed: PackedTokens) -> Int[Tensor, " cells"] | None:
    """Which token each cell holds, for code that is being compiled."""
    return packed.tokens if torch.compiler.is_compiling() else None


def into_cells(states: Tensor, cells: Tensor, tokens: Tensor | None, num_cells: int) -> Tensor:
    """Row n into row cells[n] of zeros; or, the same, row m is row tokens[m], and zeros for a token past the last."""
    if tokens is not None:
        return torch.nn.functional.pad(states, (0, 0, 0, 1)).index_select(0, tokens)
    return states.new_zeros(num_cells, states.shape[1]).index_copy_(0, cells, states)


class _Spread(torch.autograd.Function):
    @staticmethod
    def forward(ctx: Any, states: Tensor, cells: Tensor, tokens: Tensor | None, num_cells: int) -> Tensor:
        ctx.save_for_backward(cells)
        return into_cells(states, cells, tokens, num_cells)

    @staticmethod
    def backward(ctx: Any, *grads: Tensor) -> tuple[Tensor | None, ...]:
        (cells,) = ctx.saved_tensors
        return grads[0].index_select(0, cells), None, None, None


class _Gather(torch.autograd.Function):
    @staticmethod
    def forward(ctx: Any, states: Tensor, cells: Tensor, tokens: Tensor | None) -> Tensor:
        ctx.save_for_backward(cells, tokens)
        ctx.num_cells = states.shape[0]
        return states.index_select(0, cells)

    @staticmethod
    def backward(ctx: Any, *grads: Tensor) -> tuple[Tensor | None, ...]:
        cells, tokens = ctx.saved_tensors
        return into_cells(grads[0], cells, tokens, ctx.num_cells), None, None
