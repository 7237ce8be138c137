"""Masks from a function of two positions: allowed(i, j) = f(i, j)."""

from collections.abc import Callable
from dataclasses import dataclass

import torch
from jaxtyping import Bool
from torch import Tensor

from regard.attention.masks.algebra import ComposableMask
from regard.contracts import Grid


@dataclass(frozen=True, eq=False)
class Predicate(ComposableMask):
    """A function of the positions of query and key."""

    function: Callable[[Tensor, Tensor], Tensor]

    def allowed(self, grid: Grid) -> Bool[Tensor, "..."]:
        """The function at every pair of positions."""
        # (Q, 1) and (K,), or single positions inside FlexAttention
        allowed = self.function(grid.queries, grid.keys)
        if not isinstance(allowed, Tensor) or allowed.dtype != torch.bool:
            kind = allowed.dtype if isinstance(allowed, Tensor) else type(allowed).__name__
            raise TypeError(
                f"the predicate returned {kind}, expected a boolean tensor: it is called with integer tensors of query "
                f"and key positions that broadcast, as in predicate(lambda i, j: i != j)."
            )
        return allowed


def predicate(function: Callable[[Tensor, Tensor], Tensor]) -> Predicate:
    """Allow a query at i the keys j where function(i, j) is True; the function is called with tensors of positions."""
    return Predicate(function)
