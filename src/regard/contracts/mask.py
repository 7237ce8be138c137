"""Who may look at whom: a mask is a rule over positions, True = may attend.

One rule serves every path: evaluated on whole ranges it gives the boolean tensor of plain torch, on single indices the
mask function of a fused kernel, and its span tells a blocked kernel which keys it need not touch.
"""

from dataclasses import dataclass
from typing import Protocol, runtime_checkable

import torch
from jaxtyping import Bool, Int
from torch import Tensor


@dataclass(frozen=True)
class Grid:
    """Positions at which a rule is asked: an index per leading dimension, of the query and of the key.

    The three broadcast against each other.
    """

    rows: tuple[Int[Tensor, "..."], ...]
    queries: Int[Tensor, "..."]
    keys: Int[Tensor, "..."]

    @classmethod
    def of(cls, shape: tuple[int, ...], *, device: torch.device, first_query: int, first_key: int = 0) -> "Grid":
        """The grid of scores of this shape (.., Q, K), counted from these positions."""
        *leading, num_queries, num_keys = shape
        rank = len(shape)
        rows = tuple(
            torch.arange(size, device=device).view(*(size if axis == dim else 1 for dim in range(rank)))
            for axis, size in enumerate(leading)
        )
        queries = torch.arange(first_query, first_query + num_queries, device=device)[:, None]
        return cls(rows=rows, queries=queries, keys=torch.arange(first_key, first_key + num_keys, device=device))


@runtime_checkable
class Mask(Protocol):
    """A rule that composes with &, | and ~."""

    @property
    def structured(self) -> bool:
        """Whether the rule needs positions only, so that a kernel may ask it index by index."""
        ...

    @property
    def per_row(self) -> bool:
        """Whether rows of the batch differ."""
        ...

    @property
    def per_query(self) -> bool:
        """Whether queries differ."""
        ...

    def tensors(self) -> tuple[Tensor, ...]:
        """Tensors the rule reads."""
        ...

    @property
    def is_triangle(self) -> bool:
        """Whether this is the causal triangle, which fused kernels know by heart."""
        ...

    def __hash__(self) -> int:
        """A mask is itself and no other."""
        ...

    def allowed(self, grid: Grid) -> Bool[Tensor, "..."]:
        """True where the query may attend to the key; broadcasts to the grid's shape."""
        ...

    def span(self, first: int, last: int) -> tuple[int | None, int | None]:
        """Key positions [low, high) outside which queries first..last may see nothing; None where unbounded."""
        ...

    def parts(self) -> tuple["Mask", ...]:
        """Masks that all must allow a pair for this one to allow it."""
        ...

    def interval(self, queries: Int[Tensor, " Q"]) -> tuple[Tensor | None, Tensor | None] | None:
        """Key positions [low, high) that each of these queries sees, all of them; None where it is no interval."""
        ...
