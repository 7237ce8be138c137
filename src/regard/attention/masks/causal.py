"""Causal mask, and causal with a bidirectional prefix.

Causal: a query sees itself and what came before it.

    allowed(i, j) = j <= i

Vaswani et al. 2017, section 3.2.3. https://arxiv.org/abs/1706.03762
With more keys than queries (a cache) the last query meets the last key.

Prefix: everybody sees the first keys.

    allowed(i, j) = j < length

`causal() | prefix(n)` is a prefix language model: the prompt is read both ways, the rest is written left to right.
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


@dataclass(frozen=True, eq=False)
class Prefix(ComposableMask):
    """The same first keys for every query."""

    length: int

    def allowed(self, grid: Grid) -> Bool[Tensor, "..."]:
        """Keys before `length`."""
        return grid.keys < self.length

    def span(self, first: int, last: int) -> Span:
        """Nothing at or after `length`."""
        return None, self.length

    def interval(self, queries: Int[Tensor, " Q"]) -> Interval:
        """The same keys for each."""
        return None, torch.full_like(queries, self.length)

    @property
    def per_query(self) -> bool:
        """All queries see the same."""
        return False


def prefix(length: int | Int[Tensor, "..."]) -> ComposableMask:
    """Every query sees the first `length` keys; a tensor gives each row of the batch its own length."""
    if isinstance(length, Tensor):
        # "j < lengths[b]" is what padding says too
        return padding(length)
    check_count("prefix length", length)
    return Prefix(length)
