"""Prefix: everybody sees the first keys.

    allowed(i, j) = j < length

`causal() | prefix(n)` is a prefix language model: the prompt is read both ways, the rest is written left to right.
"""

from dataclasses import dataclass

import torch
from jaxtyping import Bool, Int
from torch import Tensor

from regard.attention.masks.mask import Interval, Rule, Span, check_count
from regard.attention.masks.padding import padding
from regard.contracts import Grid


@dataclass(frozen=True, eq=False)
class Prefix(Rule):
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


def prefix(length: int | Int[Tensor, "..."]) -> Rule:
    """Every query sees the first `length` keys; a tensor gives each row of the batch its own length."""
    if isinstance(length, Tensor):
        # "j < lengths[b]" is what padding says too
        return padding(length)
    check_count("prefix length", length)
    return Prefix(length)
