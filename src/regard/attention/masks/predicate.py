"""Predicate: any rule of your own over positions.

allowed(i, j) = f(i, j)
"""

from collections.abc import Callable
from dataclasses import dataclass

import torch
from jaxtyping import Bool
from torch import Tensor

from regard.attention.masks.algebra import ComposableMask
from regard.contracts import Grid


@dataclass(frozen=True, eq=False)
class Predicate(ComposableMask):
    """What a function of the query's and the key's position says."""

    function: Callable[[Tensor, Tensor], Tensor]

    def allowed(self, grid: Grid) -> Bool[Tensor, "..."]:
        """The function's answer at every pair of positions."""
        answer = self.function(grid.queries, grid.keys)
        if not isinstance(answer, Tensor) or answer.dtype != torch.bool:
            given = answer.dtype if isinstance(answer, Tensor) else type(answer).__name__
            raise ValueError(
                f"the predicate gave {given}, expected a boolean tensor: it is called with integer tensors of query "
                f"and key positions that broadcast, as in predicate(lambda i, j: i != j)."
            )
        return answer


def predicate(function: Callable[[Tensor, Tensor], Tensor]) -> Predicate:
    """A query at i sees a key at j where function(i, j) is True; it gets whole tensors of positions."""
    return Predicate(function)
