"""Window masks: neighbours, and every step-th neighbour.

    Window    allowed(i, j) = |i - j| <= size
    Dilated   allowed(i, j) = |i - j| <= size * step  and  (i - j) mod step = 0

Dilated: Beltagy, Peters and Cohan 2020, section 3.1. https://arxiv.org/abs/2004.05150
"""

from dataclasses import dataclass

from jaxtyping import Bool, Int
from torch import Tensor

from regard.attention.masks.algebra import ComposableMask, Interval, Span, check_count
from regard.contracts import Grid


@dataclass(frozen=True, eq=False)
class Window(ComposableMask):
    """Keys at most `size` positions away; `causal() & window(size)` is the earlier half."""

    size: int

    def allowed(self, grid: Grid) -> Bool[Tensor, "..."]:
        """True at keys at most `size` positions away."""
        return (grid.queries - grid.keys).abs() <= self.size

    def span(self, first: int, last: int) -> Span:
        """From `size` before the first query to `size` after the last."""
        # half-open on the right, hence + 1
        return first - self.size, last + self.size + 1

    def interval(self, queries: Int[Tensor, " Q"]) -> Interval:
        """`size` positions on either side."""
        # larger than any length, and small enough that adding a position does not overflow
        size = min(self.size, 2**62)
        return queries - size, queries + size + 1


def window(size: int) -> Window:
    """Allow a query keys at most `size` positions away, on either side."""
    check_count("window size", size)
    return Window(size)


@dataclass(frozen=True, eq=False)
class Dilated(ComposableMask):
    """Every `step`-th key, `size` of them on either side: a wide window at the cost of a narrow one."""

    size: int
    step: int

    def allowed(self, grid: Grid) -> Bool[Tensor, "..."]:
        """True at keys a multiple of `step` away, at most `size` steps."""
        distance = (grid.queries - grid.keys).abs()
        return (distance <= self.size * self.step) & (distance % self.step == 0)

    def span(self, first: int, last: int) -> Span:
        """From the outermost step before the first query to that after the last."""
        reach = self.size * self.step
        return first - reach, last + reach + 1


def dilated(size: int, step: int) -> Dilated:
    """Allow a query itself and `size` keys on either side, `step` positions apart."""
    check_count("dilated size", size)
    check_count("dilated step", step, least=1)
    return Dilated(size, step)
