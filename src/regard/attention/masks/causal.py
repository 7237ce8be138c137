"""Causal and prefix masks.

    Causal   allowed(i, j) = j <= i
    Prefix   allowed(i, j) = j < length

Causal: Vaswani et al. 2017, section 3.2.3. https://arxiv.org/abs/1706.03762
With more keys than queries (a cache), the last query has the position of the last key.
`causal() | prefix(n)` is a prefix language model: attention within the prompt is bidirectional, after it causal.
"""

from dataclasses import dataclass

import torch
from jaxtyping import Bool, Int
from torch import Tensor

from regard.attention.masks.algebra import ComposableMask, Interval, Span, check_count
from regard.attention.masks.padding import padding
from regard.contracts import Grid


@dataclass(frozen=True, eq=False)
class Causal(ComposableMask):
    """Keys up to the position of the query."""

    @property
    def is_triangle(self) -> bool:
        """Always true."""
        return True

    def allowed(self, grid: Grid) -> Bool[Tensor, "..."]:
        """True at keys up to the query's position."""
        # (K,) against (Q, 1): one entry for every pair
        return grid.keys <= grid.queries

    def span(self, first: int, last: int) -> Span:
        """No keys after the last query."""
        return None, last + 1

    def interval(self, queries: Int[Tensor, " Q"]) -> Interval:
        """From the first key to the query's position."""
        # half-open, so that the query's own position is included
        return None, queries + 1


def causal() -> Causal:
    """Allow a query its own position and earlier ones."""
    return Causal()


@dataclass(frozen=True, eq=False)
class Prefix(ComposableMask):
    """The same first keys for every query."""

    length: int

    def allowed(self, grid: Grid) -> Bool[Tensor, "..."]:
        """True at keys before `length`."""
        return grid.keys < self.length

    def span(self, first: int, last: int) -> Span:
        """No keys at or after `length`."""
        return None, self.length

    def interval(self, queries: Int[Tensor, " Q"]) -> Interval:
        """From the first key to `length`, for each query."""
        return None, torch.full_like(queries, self.length)

    @property
    def per_query(self) -> bool:
        """All queries may attend to the same keys."""
        return False


def prefix(length: int | Int[Tensor, "..."]) -> ComposableMask:
    """Allow every query the first `length` keys; a tensor has a length per batch element."""
    if isinstance(length, Tensor):
        # the same rule as padding: j < lengths[b]
        return padding(length)
    check_count("prefix length", length)
    return Prefix(length)
