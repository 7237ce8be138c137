"""Real keys: which of a memory's keys are there, row by row.

allowed(b, i, j) = real[b, j]
"""

from dataclasses import dataclass

import torch
from jaxtyping import Bool
from torch import Tensor

from regard.attention.masks.mask import RowRule
from regard.contracts import Grid


@dataclass(frozen=True, eq=False)
class Real(RowRule):
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
