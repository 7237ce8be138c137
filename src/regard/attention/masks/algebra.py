"""The algebra of masks: and, or, not, and a boolean tensor as a mask."""

from dataclasses import dataclass
from typing import TypeAlias

import torch
from jaxtyping import Bool, Int
from torch import Tensor

from regard.contracts import Grid

Span: TypeAlias = tuple[int | None, int | None]
Interval: TypeAlias = tuple[Tensor | None, Tensor | None]


class ComposableMask:
    """A mask that asks for positions only; a subclass says what is allowed, and if it can, how far one may look."""

    @property
    def structured(self) -> bool:
        """Whether positions are all the rule asks for."""
        return True

    @property
    def is_triangle(self) -> bool:
        """Whether this is the causal triangle."""
        return False

    def allowed(self, grid: Grid) -> Bool[Tensor, "..."]:
        """True where the query may attend to the key."""
        raise TypeError(f"{type(self).__name__} must say what is allowed")

    def span(self, first: int, last: int) -> Span:
        """Key positions [low, high) outside which queries first..last see nothing."""
        return None, None

    def parts(self) -> tuple["ComposableMask", ...]:
        """Masks that all must allow a pair for this one to allow it."""
        return (self,)

    def interval(self, queries: Int[Tensor, " Q"]) -> Interval | None:
        """Key positions [low, high) that each of these queries sees, all of them; None where it is no interval."""
        return None

    def tensors(self) -> tuple[Tensor, ...]:
        """Tensors the mask holds, which must be where the queries are."""
        return ()

    @property
    def per_row(self) -> bool:
        """Whether rows of the batch differ, so that written out each has its own."""
        return False

    @property
    def per_query(self) -> bool:
        """Whether queries differ, so that written out each has its own."""
        return True

    def __bool__(self) -> bool:
        raise ValueError("masks combine with &, | and ~: Python's `and`, `or` and `not` would keep only one of them.")

    def __and__(self, other: "ComposableMask | Tensor") -> "ComposableMask":
        return Both(self, as_mask(other))

    def __rand__(self, other: Tensor) -> "ComposableMask":
        return Both(as_mask(other), self)

    def __or__(self, other: "ComposableMask | Tensor") -> "ComposableMask":
        return Either(self, as_mask(other))

    def __ror__(self, other: Tensor) -> "ComposableMask":
        return Either(as_mask(other), self)

    def __invert__(self) -> "ComposableMask":
        return Not(self)


class PerExampleMask(ComposableMask):
    """A mask of keys alone: rows of the batch differ, queries do not."""

    @property
    def per_row(self) -> bool:
        """Each row has its own keys."""
        return True

    @property
    def per_query(self) -> bool:
        """All queries of a row see the same."""
        return False


@dataclass(frozen=True, eq=False)
class Pair(ComposableMask):
    """Two masks together."""

    left: ComposableMask
    right: ComposableMask

    @property
    def structured(self) -> bool:
        """Whether both are rules over positions."""
        return self.left.structured and self.right.structured

    @property
    def per_row(self) -> bool:
        """Whether one of them is."""
        return self.left.per_row or self.right.per_row

    @property
    def per_query(self) -> bool:
        """Whether one of them is."""
        return self.left.per_query or self.right.per_query

    def tensors(self) -> tuple[Tensor, ...]:
        """The tensors of both."""
        return (*self.left.tensors(), *self.right.tensors())


class Both(Pair):
    """Allowed by both."""

    def parts(self) -> tuple[ComposableMask, ...]:
        """The parts of both."""
        return (*self.left.parts(), *self.right.parts())

    def allowed(self, grid: Grid) -> Bool[Tensor, "..."]:
        """What both allow."""
        return self.left.allowed(grid) & self.right.allowed(grid)

    def span(self, first: int, last: int) -> Span:
        """Where the two spans overlap."""
        low, high = zip(self.left.span(first, last), self.right.span(first, last), strict=True)
        return (
            max((bound for bound in low if bound is not None), default=None),
            min((bound for bound in high if bound is not None), default=None),
        )


class Either(Pair):
    """Allowed by one or the other."""

    def interval(self, queries: Int[Tensor, " Q"]) -> Interval | None:
        """Two intervals that begin with the first key are one, the longer."""
        found = self.left.interval(queries), self.right.interval(queries)
        if any(each is None or each[0] is not None for each in found):
            return None
        highs = [each[1] for each in found if each is not None and each[1] is not None]
        return None, torch.maximum(*highs) if len(highs) == len(found) else None

    def allowed(self, grid: Grid) -> Bool[Tensor, "..."]:
        """What either allows."""
        return self.left.allowed(grid) | self.right.allowed(grid)

    def span(self, first: int, last: int) -> Span:
        """From where the first begins to where the last ends."""
        (low, high), (other_low, other_high) = self.left.span(first, last), self.right.span(first, last)
        return (
            None if low is None or other_low is None else min(low, other_low),
            None if high is None or other_high is None else max(high, other_high),
        )


@dataclass(frozen=True, eq=False)
class Not(ComposableMask):
    """Allowed where the other forbids."""

    inner: ComposableMask

    @property
    def structured(self) -> bool:
        """Whether the inner mask is a rule over positions."""
        return self.inner.structured

    @property
    def per_row(self) -> bool:
        """Whether the inner mask is."""
        return self.inner.per_row

    @property
    def per_query(self) -> bool:
        """Whether the inner mask is."""
        return self.inner.per_query

    def allowed(self, grid: Grid) -> Bool[Tensor, "..."]:
        """What the inner mask forbids."""
        return ~self.inner.allowed(grid)

    def tensors(self) -> tuple[Tensor, ...]:
        """The tensors inside."""
        return self.inner.tensors()


@dataclass(frozen=True, eq=False)
class Explicit(ComposableMask):
    """A boolean tensor that broadcasts to (.., queries, keys)."""

    tensor: Bool[Tensor, "..."]

    @property
    def structured(self) -> bool:
        """A tensor must be read, not asked."""
        return False

    @property
    def per_query(self) -> bool:
        """Whether it has a row for each query."""
        return self.tensor.ndim > 1 and self.tensor.shape[-2] > 1

    def allowed(self, grid: Grid) -> Bool[Tensor, "..."]:
        """The tensor itself; it stands for these queries and keys, wherever they are."""
        shape = (*(row.numel() for row in grid.rows), grid.queries.numel(), grid.keys.numel())
        mine = tuple(self.tensor.shape)
        if len(mine) > len(shape) or any(m not in (1, s) for m, s in zip(mine[::-1], shape[::-1], strict=False)):
            raise ValueError(
                f"mask has shape {mine}, which does not broadcast to the scores' shape {shape} "
                f"(leading dimensions, queries, keys). Insert dimensions of size 1, or use padding(lengths) for keys."
            )
        return self.tensor

    def tensors(self) -> tuple[Tensor, ...]:
        """The tensors inside."""
        return (self.tensor,)


def as_mask(mask: ComposableMask | Tensor) -> ComposableMask:
    """A mask as it is, a boolean tensor as an explicit mask."""
    if isinstance(mask, ComposableMask):
        return mask
    if not isinstance(mask, Tensor):
        raise ValueError(
            f"mask must be a boolean tensor or a mask such as causal(), not {type(mask).__name__}. "
            f"True means may attend."
        )
    if mask.dtype != torch.bool:
        raise ValueError(
            f"mask has dtype {mask.dtype}, expected torch.bool (True = may attend). "
            f"For an additive mask pass mask > -1; for a 0/1 mask pass mask.bool()."
        )
    return Explicit(mask)


def check_count(name: str, value: object, least: int = 0) -> None:
    """A whole number of positions."""
    if not isinstance(value, int) or isinstance(value, bool) or value < least:
        raise ValueError(f"{name} is {value!r}, expected a whole number, {least} or more.")
