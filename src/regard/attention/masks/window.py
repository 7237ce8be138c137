"""Window: a query sees its neighbours, at most `size` steps away on either side.

allowed(i, j) = |i - j| <= size
"""

from dataclasses import dataclass

from jaxtyping import Bool, Int
from torch import Tensor

from regard.attention.masks.mask import Interval, Rule, Span, check_count
from regard.contracts import Grid


@dataclass(frozen=True, eq=False)
class Window(Rule):
    """Local attention; `causal() & window(size)` keeps the past half."""

    size: int

    def allowed(self, grid: Grid) -> Bool[Tensor, "..."]:
        """Keys at most `size` away."""
        return (grid.queries - grid.keys).abs() <= self.size

    def span(self, first: int, last: int) -> Span:
        """From `size` before the first query to `size` after the last."""
        return first - self.size, last + self.size + 1

    def interval(self, queries: Int[Tensor, " Q"]) -> Interval:
        """`size` on either side."""
        # farther than any text is long, and still a number that positions can be added to
        size = min(self.size, 2**62)
        return queries - size, queries + size + 1


def window(size: int) -> Window:
    """A query sees keys at most `size` positions away, on either side."""
    check_count("window size", size)
    return Window(size)
