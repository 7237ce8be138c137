"""Causal: a query sees itself and what came before it.

    allowed(i, j) = j <= i

Vaswani et al. 2017, section 3.2.3. https://arxiv.org/abs/1706.03762
With more keys than queries (a cache) the last query meets the last key.
"""

from dataclasses import dataclass

from jaxtyping import Bool, Int
from torch import Tensor

from regard.attention.masks.mask import Interval, Rule, Span
from regard.contracts import Grid


@dataclass(frozen=True, eq=False)
class Causal(Rule):
    """No looking ahead."""

    @property
    def is_triangle(self) -> bool:
        """It is."""
        return True

    def allowed(self, grid: Grid) -> Bool[Tensor, "..."]:
        """Keys up to the query's own position."""
        return grid.keys <= grid.queries

    def span(self, first: int, last: int) -> Span:
        """Nothing after the last query."""
        return None, last + 1

    def interval(self, queries: Int[Tensor, " Q"]) -> Interval:
        """Up to the query itself."""
        return None, queries + 1


def causal() -> Causal:
    """A query sees its own position and those before it."""
    return Causal()
