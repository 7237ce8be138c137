"""Window masks: neighbours, and every step-th neighbour.

Window: a query sees its neighbours, at most `size` steps away on either side.

allowed(i, j) = |i - j| <= size

Dilated window: every `step`-th neighbour, `size` of them on either side.

    allowed(i, j) = |i - j| <= size * step  and  (i - j) mod step = 0

Beltagy, Peters and Cohan 2020, section 3.1. https://arxiv.org/abs/2004.05150
"""

from dataclasses import dataclass

from jaxtyping import Bool, Int
from torch import Tensor

from regard.attention.masks.algebra import ComposableMask, Interval, Span, check_count
from regard.contracts import Grid


@dataclass(frozen=True, eq=False)
class Window(ComposableMask):
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


@dataclass(frozen=True, eq=False)
class Dilated(ComposableMask):
    """A wide view at the price of a narrow one."""

    size: int
    step: int

    def allowed(self, grid: Grid) -> Bool[Tensor, "..."]:
        """Keys a whole number of steps away, at most `size` of them."""
        distance = (grid.queries - grid.keys).abs()
        return (distance <= self.size * self.step) & (distance % self.step == 0)

    def span(self, first: int, last: int) -> Span:
        """As far as the outermost steps."""
        reach = self.size * self.step
        return first - reach, last + reach + 1


def dilated(size: int, step: int) -> Dilated:
    """A query sees itself and `size` keys on either side, `step` positions apart."""
    check_count("dilated size", size)
    check_count("dilated step", step, least=1)
    return Dilated(size, step)
