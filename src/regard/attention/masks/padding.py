"""Padding masks: keys by length, and the existing keys of a memory.

Padding   allowed(b, i, j) = j < lengths[b]
KeyMask   allowed(b, i, j) = exists[b, j]
"""

from dataclasses import dataclass

import torch
from jaxtyping import Bool, Int
from torch import Tensor

from regard.attention.masks.algebra import PerExampleMask
from regard.contracts import Grid
from regard.kernels import is_concrete


@dataclass(frozen=True, eq=False)
class Padding(PerExampleMask):
    """Keys before a length per batch element."""

    lengths: Int[Tensor, "..."]

    def allowed(self, grid: Grid) -> Bool[Tensor, "..."]:
        """True at keys before the length; the axes of the lengths are the first leading dimensions."""
        num_axes = self.lengths.ndim
        if num_axes > len(grid.leading):
            raise ValueError(
                f"padding lengths have shape {tuple(self.lengths.shape)}, but the queries have only "
                f"{len(grid.leading)} leading dimensions. Pass one length per batch element."
            )
        for axis, size in enumerate(self.lengths.shape):
            # FlexAttention evaluates masks at scalar indices, whose range it has checked
            if grid.leading[axis].ndim and grid.leading[axis].numel() != size:
                raise ValueError(
                    f"padding lengths have shape {tuple(self.lengths.shape)}, but leading dimension {axis} of the "
                    f"attention has size {grid.leading[axis].numel()}. Pass one length per batch element."
                )
        # indexed by the leading positions the lengths are (batch, 1, .., 1), which broadcasts against the keys
        return grid.keys < (self.lengths[grid.leading[:num_axes]] if num_axes else self.lengths)

    def tensors(self) -> tuple[Tensor, ...]:
        """The lengths."""
        return (self.lengths,)


def padding(lengths: Int[Tensor, "..."]) -> Padding:
    """Allow keys before `lengths`; lengths of shape (batch,) broadcast over heads and queries."""
    if not isinstance(lengths, Tensor) or lengths.is_floating_point() or lengths.dtype == torch.bool:
        kind = f"dtype {lengths.dtype}" if isinstance(lengths, Tensor) else type(lengths).__name__
        raise TypeError(
            f"padding takes an integer tensor of lengths, one per batch element, not {kind}. "
            f"For a boolean tensor of existing keys, pass mask=exists[:, None, :]."
        )
    # on a GPU the check would make the host wait for the device
    if is_concrete(lengths) and bool((lengths < 0).any()):
        raise ValueError(f"padding lengths contain {int(lengths.min())}, expected 0 or more keys.")
    return Padding(lengths)


@dataclass(frozen=True, eq=False)
class KeyMask(PerExampleMask):
    """The existing keys of a memory, whose first key has position 0.

    The leading dimensions of `exists` are those of the memory and broadcast; `num_head_axes` more follow them.
    """

    exists: Bool[Tensor, "... K"]
    num_head_axes: int = 0

    def allowed(self, grid: Grid) -> Bool[Tensor, "..."]:
        """True at existing keys."""
        # the last axes are those of the heads, which share the keys of their batch element
        leading = grid.leading[: len(grid.leading) - self.num_head_axes]
        # aligned at the last axis, as in broadcasting: the mask may lack the first ones
        own = leading[len(leading) - self.exists.ndim + 1 :]
        # a dimension of size 1 broadcasts: its index is always 0
        indices = (
            index if size > 1 else torch.zeros_like(index)
            for index, size in zip(own, self.exists.shape[:-1], strict=True)
        )
        # (batch, 1, .., 1) and (K,) broadcast to (batch, 1, .., K), with an axis of size 1 for the queries
        return self.exists[(*indices, grid.keys)]

    def tensors(self) -> tuple[Tensor, ...]:
        """The boolean tensor."""
        return (self.exists,)
