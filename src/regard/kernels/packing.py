"""Packed tokens to the padded rectangle and back. Each is the other's gradient, since no position is used twice.

Eager code scatters into zeros. Compiled code gathers by the inverse index: the compiler fuses a gather with what
follows, and torch 2.11 drops the gradient of a scatter into zeros.
"""

from typing import Any

import torch
from jaxtyping import Float, Int
from torch import Tensor

from regard.contracts import PackedTokens


def pad_packed(states: Float[Tensor, "N size"], packed: PackedTokens) -> Float[Tensor, "B L size"]:
    """States of packed tokens in the padded rectangle, zeros at padding."""
    batch_size = packed.cu_seqlens.shape[0] - 1
    padded: Tensor = _Pad.apply(states, packed.padded_indices, inverse_indices(packed), batch_size * packed.max_seqlen)
    return padded.unflatten(0, (batch_size, packed.max_seqlen))


def pack_padded(states: Float[Tensor, "B L size"], packed: PackedTokens) -> Float[Tensor, "N size"]:
    """States of the tokens end to end; what is at padding is dropped."""
    gathered: Tensor = _Pack.apply(states.flatten(0, 1), packed.padded_indices, inverse_indices(packed))
    return gathered


def inverse_indices(packed: PackedTokens) -> Int[Tensor, " cells"] | None:
    """Indices for a gather in compiled code; None in eager code."""
    return packed.packed_indices if torch.compiler.is_compiling() else None


def scatter(states: Tensor, indices: Tensor, inverse: Tensor | None, size: int) -> Tensor:
    """states[n] at indices[n] of `size` zero vectors, or the same by gathering states[inverse[m]] for every m."""
    if inverse is not None:
        # one zero vector at the end serves all padding, whose inverse index is N
        return torch.nn.functional.pad(states, (0, 0, 0, 1)).index_select(0, inverse)
    return states.new_zeros(size, states.shape[1]).index_copy_(0, indices, states)


class _Pad(torch.autograd.Function):
    @staticmethod
    def forward(ctx: Any, states: Tensor, indices: Tensor, inverse: Tensor | None, size: int) -> Tensor:
        ctx.save_for_backward(indices)
        return scatter(states, indices, inverse, size)

    @staticmethod
    def backward(ctx: Any, *grads: Tensor) -> tuple[Tensor | None, ...]:
        (indices,) = ctx.saved_tensors
        return grads[0].index_select(0, indices), None, None, None


class _Pack(torch.autograd.Function):
    @staticmethod
    def forward(ctx: Any, states: Tensor, indices: Tensor, inverse: Tensor | None) -> Tensor:
        ctx.save_for_backward(indices, inverse)
        ctx.size = states.shape[0]
        return states.index_select(0, indices)

    @staticmethod
    def backward(ctx: Any, *grads: Tensor) -> tuple[Tensor | None, ...]:
        indices, inverse = ctx.saved_tensors
        return scatter(grads[0], indices, inverse, ctx.size), None, None
