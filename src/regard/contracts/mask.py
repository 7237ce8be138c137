"""Masks: rules over positions, True = may attend.

One rule serves every implementation. On whole ranges of positions it gives the boolean tensor of plain torch, on single
indices the mask function of FlexAttention, and its span tells blocked kernels which keys they can skip.
"""

from dataclasses import dataclass
from typing import Protocol, runtime_checkable

import torch
from jaxtyping import Bool, Int
from torch import Tensor


@dataclass(frozen=True)
class Grid:
    """Positions at which a mask is evaluated: an index per leading dimension, and of queries and keys.

    All of them broadcast against each other.
    """

    # on ranges (1, .., size, .., 1), (Q, 1) and (K,); inside FlexAttention 0-dimensional
    leading: tuple[Int[Tensor, "..."], ...]
    queries: Int[Tensor, "..."]
    keys: Int[Tensor, "..."]

    @classmethod
    def of(cls, shape: tuple[int, ...], *, device: torch.device, first_query: int, first_key: int = 0) -> "Grid":
        """The grid of scores of shape (.., Q, K), whose first query and key have these positions."""
        *leading_shape, num_queries, num_keys = shape
        rank = len(shape)
        leading = tuple(
            # each axis has its index along one dimension of the scores, and size 1 along the others
            torch.arange(size, device=device).view(*(size if axis == dim else 1 for dim in range(rank)))
            for axis, size in enumerate(leading_shape)
        )
        # (Q, 1), to broadcast against the keys (K,)
        queries = torch.arange(first_query, first_query + num_queries, device=device)[:, None]
        keys = torch.arange(first_key, first_key + num_keys, device=device)
        return cls(leading=leading, queries=queries, keys=keys)


@runtime_checkable
class Mask(Protocol):
    """A rule that composes with &, | and ~."""

    @property
    def structured(self) -> bool:
        """True if the rule can be evaluated index by index inside a kernel; False for an explicit tensor."""
        ...

    @property
    def per_example(self) -> bool:
        """True if batch elements may differ."""
        ...

    @property
    def per_query(self) -> bool:
        """True if queries may differ."""
        ...

    def tensors(self) -> tuple[Tensor, ...]:
        """Tensors that the rule uses."""
        ...

    @property
    def is_triangle(self) -> bool:
        """True for the causal triangle alone, which fused kernels implement without a mask."""
        ...

    def __hash__(self) -> int:
        """Masks are compared by identity."""
        ...

    def allowed(self, grid: Grid) -> Bool[Tensor, "..."]:
        """True where the query may attend to the key; broadcasts to the grid's shape."""
        ...

    def span(self, first: int, last: int) -> tuple[int | None, int | None]:
        """Key positions [low, high) outside which queries first..last may attend to nothing; None = unbounded."""
        ...

    def parts(self) -> tuple["Mask", ...]:
        """Masks whose intersection this mask is."""
        ...

    def interval(self, queries: Int[Tensor, " Q"]) -> tuple[Tensor | None, Tensor | None] | None:
        """Key positions [low, high) if each of these queries may attend to exactly such an interval, else None."""
        ...
