"""The algebra of masks: intersection, union, complement, and a boolean tensor as a mask."""

from dataclasses import dataclass
from typing import TypeAlias

import torch
from jaxtyping import Bool, Int
from torch import Tensor

from regard.contracts import Grid

# bounds on the host, for a range of queries
Span: TypeAlias = tuple[int | None, int | None]
# bounds on the device, one entry per query
Interval: TypeAlias = tuple[Tensor | None, Tensor | None]


class ComposableMask:
    """A rule over positions that composes with &, | and ~; subclasses define `allowed` and, if known, `span`."""

    @property
    def structured(self) -> bool:
        """True if the rule can be evaluated index by index inside a kernel."""
        return True

    @property
    def is_triangle(self) -> bool:
        """True for the causal triangle alone."""
        return False

    def allowed(self, grid: Grid) -> Bool[Tensor, "..."]:
        """True where the query may attend to the key."""
        raise NotImplementedError(f"{type(self).__name__} must define allowed(grid)")

    def span(self, first: int, last: int) -> Span:
        """Key positions [low, high) outside which queries first..last may attend to nothing; None = unbounded."""
        return None, None

    def parts(self) -> tuple["ComposableMask", ...]:
        """Masks whose intersection this mask is."""
        return (self,)

    def interval(self, queries: Int[Tensor, " Q"]) -> Interval | None:
        """Key positions [low, high) if each of these queries may attend to exactly such an interval, else None."""
        return None

    def tensors(self) -> tuple[Tensor, ...]:
        """Tensors that the rule uses, which must be on the device of the queries."""
        return ()

    @property
    def per_example(self) -> bool:
        """True if batch elements may differ."""
        return False

    @property
    def per_query(self) -> bool:
        """True if queries may differ."""
        return True

    def __bool__(self) -> bool:
        raise TypeError("masks combine with &, | and ~; Python's `and`, `or` and `not` would keep only one of them.")

    def __and__(self, other: "ComposableMask | Tensor") -> "ComposableMask":
        return Intersection(self, as_mask(other))

    def __rand__(self, other: Tensor) -> "ComposableMask":
        return Intersection(as_mask(other), self)

    def __or__(self, other: "ComposableMask | Tensor") -> "ComposableMask":
        return Union(self, as_mask(other))

    def __ror__(self, other: Tensor) -> "ComposableMask":
        return Union(as_mask(other), self)

    def __invert__(self) -> "ComposableMask":
        return Complement(self)


class PerExampleMask(ComposableMask):
    """A mask of keys: batch elements may differ, queries do not."""

    @property
    def per_example(self) -> bool:
        """Each batch element has its own keys."""
        return True

    @property
    def per_query(self) -> bool:
        """All queries of a batch element may attend to the same keys."""
        return False


# eq=False: masks are compared and hashed by identity, since tensors compare element by element
@dataclass(frozen=True, eq=False)
class BinaryMask(ComposableMask):
    """A combination of two masks."""

    left: ComposableMask
    right: ComposableMask

    @property
    def structured(self) -> bool:
        """True if both masks are."""
        return self.left.structured and self.right.structured

    @property
    def per_example(self) -> bool:
        """True if one of the masks is."""
        return self.left.per_example or self.right.per_example

    @property
    def per_query(self) -> bool:
        """True if one of the masks is."""
        return self.left.per_query or self.right.per_query

    def tensors(self) -> tuple[Tensor, ...]:
        """Tensors of both masks."""
        return (*self.left.tensors(), *self.right.tensors())


class Intersection(BinaryMask):
    """Allowed where both masks allow."""

    def parts(self) -> tuple[ComposableMask, ...]:
        """Parts of both masks."""
        return (*self.left.parts(), *self.right.parts())

    def allowed(self, grid: Grid) -> Bool[Tensor, "..."]:
        """True where both masks are."""
        return self.left.allowed(grid) & self.right.allowed(grid)

    def span(self, first: int, last: int) -> Span:
        """The intersection of the spans."""
        # (low, low) and (high, high): the bounds of both masks by side; low may exceed high where nothing is allowed
        low, high = zip(self.left.span(first, last), self.right.span(first, last), strict=True)
        return (
            max((bound for bound in low if bound is not None), default=None),
            min((bound for bound in high if bound is not None), default=None),
        )


class Union(BinaryMask):
    """Allowed where at least one mask allows."""

    def interval(self, queries: Int[Tensor, " Q"]) -> Interval | None:
        """The longer of two intervals that both begin at the first key; other unions need be no interval."""
        intervals = self.left.interval(queries), self.right.interval(queries)
        # with a lower bound, two intervals may leave a gap between them
        if any(interval is None or interval[0] is not None for interval in intervals):
            return None
        highs = [interval[1] for interval in intervals if interval is not None and interval[1] is not None]
        # an interval without an upper end contains the other
        return None, torch.maximum(*highs) if len(highs) == len(intervals) else None

    def allowed(self, grid: Grid) -> Bool[Tensor, "..."]:
        """True where at least one mask is."""
        return self.left.allowed(grid) | self.right.allowed(grid)

    def span(self, first: int, last: int) -> Span:
        """The smallest span that contains both."""
        # unbounded on a side where one of the masks is
        (low, high), (other_low, other_high) = self.left.span(first, last), self.right.span(first, last)
        return (
            None if low is None or other_low is None else min(low, other_low),
            None if high is None or other_high is None else max(high, other_high),
        )


@dataclass(frozen=True, eq=False)
class Complement(ComposableMask):
    """Allowed where the inner mask forbids."""

    inner: ComposableMask

    @property
    def structured(self) -> bool:
        """True if the inner mask is."""
        return self.inner.structured

    @property
    def per_example(self) -> bool:
        """True if the inner mask is."""
        return self.inner.per_example

    @property
    def per_query(self) -> bool:
        """True if the inner mask is."""
        return self.inner.per_query

    def allowed(self, grid: Grid) -> Bool[Tensor, "..."]:
        """True where the inner mask is False."""
        # there is no span or interval: the complement of a bounded range is unbounded on both sides
        return ~self.inner.allowed(grid)

    def tensors(self) -> tuple[Tensor, ...]:
        """Tensors of the inner mask."""
        return self.inner.tensors()


@dataclass(frozen=True, eq=False)
class TensorMask(ComposableMask):
    """A boolean tensor that broadcasts to (.., queries, keys)."""

    tensor: Bool[Tensor, "..."]

    @property
    def structured(self) -> bool:
        """An explicit tensor cannot be evaluated index by index."""
        return False

    @property
    def per_example(self) -> bool:
        """True if leading dimensions of the tensor have entries of their own."""
        return self.tensor.shape[:-2].numel() > 1

    @property
    def per_query(self) -> bool:
        """True if the tensor has a row per query."""
        return self.tensor.ndim > 1 and self.tensor.shape[-2] > 1

    def allowed(self, grid: Grid) -> Bool[Tensor, "..."]:
        """The tensor itself, whatever the positions of these queries and keys."""
        # indices of leading dimensions are (1, .., size, .., 1), so numel gives the size of the axis
        shape = (*(index.numel() for index in grid.leading), grid.queries.numel(), grid.keys.numel())
        own_shape = tuple(self.tensor.shape)
        # broadcasting aligns shapes at their last dimension; leading dimensions that the mask lacks are left out
        aligned = shape[max(len(shape) - len(own_shape), 0) :]
        # torch 2.9 cannot trace a zip of different lengths
        if len(own_shape) != len(aligned) or any(
            own_size not in (1, size) for own_size, size in zip(own_shape, aligned, strict=True)
        ):
            raise ValueError(
                f"mask has shape {own_shape}, which does not broadcast to the scores' shape {shape} "
                f"(leading dimensions, queries, keys). Insert dimensions of size 1, or use padding(lengths) for keys."
            )
        return self.tensor

    def tensors(self) -> tuple[Tensor, ...]:
        """The tensor."""
        return (self.tensor,)


def as_mask(mask: ComposableMask | Tensor) -> ComposableMask:
    """A mask as it is, and a boolean tensor as a TensorMask."""
    if isinstance(mask, ComposableMask):
        return mask
    if not isinstance(mask, Tensor):
        raise TypeError(
            f"mask must be a boolean tensor or a mask such as causal(), not {type(mask).__name__}. "
            f"True means may attend."
        )
    if mask.is_nested or mask.layout != torch.strided:
        raise TypeError(
            f"mask is {'nested' if mask.is_nested else f'sparse ({mask.layout})'}, expected a dense boolean tensor, or "
            f"a rule such as padding(lengths)."
        )
    if mask.dtype != torch.bool:
        raise TypeError(
            f"mask has dtype {mask.dtype}, expected torch.bool (True = may attend). "
            f"For an additive mask pass mask > -1; for a 0/1 mask pass mask.bool()."
        )
    return TensorMask(mask)


def check_count(name: str, value: object, least: int = 0) -> None:
    """A whole number of positions, at least `least`."""
    # bool is a subclass of int
    if not isinstance(value, int) or isinstance(value, bool):
        raise TypeError(f"{name} is {value!r}, expected a whole number, {least} or more.")
    if value < least:
        raise ValueError(f"{name} is {value!r}, expected a whole number, {least} or more.")
