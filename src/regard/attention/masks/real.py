"""Real keys: which of a memory's keys are there, row by row.

allowed(b, i, j) = real[b, j]
"""

from dataclasses import dataclass

from jaxtyping import Bool
from torch import Tensor

from regard.attention.masks.mask import Rule
from regard.contracts import Grid


@dataclass(frozen=True, eq=False)
class Real(Rule):
    """Padding anywhere in a row; the memory's first key stands at position 0."""

    real: Bool[Tensor, "... K"]

    def allowed(self, grid: Grid) -> Bool[Tensor, "..."]:
        """Keys that are there; the mask stands for the first leading dimensions."""
        return self.real[(*grid.rows[: self.real.ndim - 1], grid.keys)]

    @property
    def per_row(self) -> bool:
        """Each row has its keys."""
        return True

    @property
    def per_query(self) -> bool:
        """All queries of a row see the same."""
        return False

    def tensors(self) -> tuple[Tensor, ...]:
        """The booleans."""
        return (self.real,)
