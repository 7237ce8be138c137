"""Padding masks: keys by length, and the existing keys of a memory.

Padding: keys past a row's length are not there.

allowed(b, i, j) = j < lengths[b]

Real keys: which of a memory's keys are there, row by row.

allowed(b, i, j) = real[b, j]
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
    """Only real keys."""

    lengths: Int[Tensor, "..."]

    def allowed(self, grid: Grid) -> Bool[Tensor, "..."]:
        """Keys before the row's length; the lengths stand for the first leading dimensions."""
        given = self.lengths.ndim
        if given > len(grid.rows):
            raise ValueError(
                f"padding lengths have shape {tuple(self.lengths.shape)}, but the queries have only {len(grid.rows)} "
                f"leading dimensions. Give one length per row of the batch."
            )
        for axis, size in enumerate(self.lengths.shape):
            # a kernel that asks index by index passes scalars, whose range it has checked itself
            if grid.rows[axis].ndim and grid.rows[axis].numel() != size:
                raise ValueError(
                    f"padding lengths have shape {tuple(self.lengths.shape)}, but leading dimension {axis} of the "
                    f"attention has size {grid.rows[axis].numel()}. Give one length per row of the batch."
                )
        return grid.keys < (self.lengths[grid.rows[:given]] if given else self.lengths)

    def tensors(self) -> tuple[Tensor, ...]:
        """The lengths."""
        return (self.lengths,)


def padding(lengths: Int[Tensor, "..."]) -> Padding:
    """Keys at positions below `lengths` may be read; lengths (batch,) serve any heads and queries behind it."""
    if not isinstance(lengths, Tensor) or lengths.is_floating_point() or lengths.dtype == torch.bool:
        kind = f"dtype {lengths.dtype}" if isinstance(lengths, Tensor) else type(lengths).__name__
        raise ValueError(
            f"padding takes an integer tensor of lengths, one per row of the batch, not {kind}. "
            f"For a boolean tensor of real positions, pass mask=real[:, None, :]."
        )
    if is_concrete(lengths) and bool((lengths < 0).any()):
        raise ValueError(f"padding was given a length of {int(lengths.min())}, expected 0 or more keys in every row.")
    return Padding(lengths)


@dataclass(frozen=True, eq=False)
class Real(PerExampleMask):
    """Padding anywhere in a row; the memory's first key stands at position 0.

    The mask's leading dimensions are the memory's, which broadcast; `num_head_axes` more come behind them.
    """

    real: Bool[Tensor, "... K"]
    num_head_axes: int = 0

    def allowed(self, grid: Grid) -> Bool[Tensor, "..."]:
        """Keys that are there."""
        rows = grid.rows[: len(grid.rows) - self.num_head_axes]
        mine = zip(rows[len(rows) - self.real.ndim + 1 :], self.real.shape[:-1], strict=True)
        return self.real[(*(row if size > 1 else torch.zeros_like(row) for row, size in mine), grid.keys)]

    def tensors(self) -> tuple[Tensor, ...]:
        """The booleans."""
        return (self.real,)
