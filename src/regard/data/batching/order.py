"""In which order examples are learned from: batches of like length, in an order drawn anew for every epoch.

An example costs the longer of its sides, as a model reads them. Examples are shuffled, sorted by cost and cut where
a batch would exceed its budget; then the batches are shuffled. The drawing uses numbers that numpy promises never to
change, so (seed, epoch) names the same batches on every machine, and (epoch, index) is all that resuming needs.
"""

from collections.abc import Sequence
from dataclasses import dataclass
from typing import TypeVar

import numpy as np
from jaxtyping import Int

Item = TypeVar("Item")


@dataclass(frozen=True)
class TokenBudget:
    """At most `tokens` cells in the padded rectangle of either side: rows x longest, marks included.

    This is fairseq's max_tokens. An example that is longer than the budget gets a batch of its own.
    """

    tokens: int

    def __post_init__(self) -> None:
        if self.tokens < 1:
            raise ValueError(f"a batch of {self.tokens} tokens is empty. Give 1 or more.")

    def rows(self, costs: Int[np.ndarray, " N"]) -> int:
        """How many of the first of these examples, shortest first, fit into a batch."""
        ahead = costs[: max(1, self.tokens // int(costs[0]))]
        cells = ahead * np.arange(1, len(ahead) + 1)
        return max(1, int(np.searchsorted(cells, self.tokens, side="right")))


@dataclass(frozen=True)
class RowBudget:
    """`count` examples a batch, however long."""

    count: int

    def __post_init__(self) -> None:
        if self.count < 1:
            raise ValueError(f"a batch of {self.count} rows is empty. Give 1 or more.")

    def rows(self, costs: Int[np.ndarray, " N"]) -> int:
        """How many of these examples fit into a batch."""
        return min(self.count, len(costs))


Budget = TokenBudget | RowBudget


@dataclass(frozen=True, kw_only=True)
class Batching:
    """How examples become batches, in plain numbers: so many tokens, or, where `rows` is given, so many rows."""

    tokens: int = 4096
    rows: int | None = None
    seed: int = 0
    packed: bool = False

    @property
    def budget(self) -> Budget:
        """How large a batch may be."""
        return TokenBudget(self.tokens) if self.rows is None else RowBudget(self.rows)

    def order(self, lengths: Int[np.ndarray, "N 2"]) -> "BucketedOrder":
        """The order of examples with these lengths."""
        return BucketedOrder(lengths, budget=self.budget, seed=self.seed)


class BucketedOrder:
    """Batches of an epoch as lists of example numbers; `lengths` has the two sides' lengths of every example."""

    def __init__(self, lengths: Int[np.ndarray, "N 2"], *, budget: Budget, seed: int = 0) -> None:
        if seed < 0:
            raise ValueError(f"the seed is {seed}. Give 0 or more.")
        self.lengths = np.asarray(lengths)
        self.budget = budget
        self.seed = seed

    def epoch(self, number: int) -> list[list[int]]:
        """The batches of this epoch; every example stands in exactly one."""
        draws = np.random.PCG64(np.random.SeedSequence([self.seed, number]))
        keys = draws.random_raw(len(self.lengths))
        batches = _cut(self.lengths, np.argsort(keys, kind="stable"), self.budget)
        return [batches[place] for place in np.argsort(draws.random_raw(len(batches)), kind="stable")]


def batches_by_length(lengths: Int[np.ndarray, "N 2"], budget: Budget) -> list[list[int]]:
    """Every example once, shortest first, without chance: for evaluation."""
    return _cut(np.asarray(lengths), np.arange(len(lengths)), budget)


def share(batch: Sequence[Item], part: int, of: int) -> list[Item]:
    """The rows of a batch that process or micro-batch `part` takes: every `of`-th, so that counts differ by at most 1.

    Batches come sorted by length, so the shares are alike in tokens too. With fewer rows than parts some are empty.
    """
    if not 0 <= part < of:
        raise ValueError(f"part {part} of {of} is asked for. Parts are counted from 0 to {of - 1}.")
    return list(batch[part::of])


def _cut(lengths: Int[np.ndarray, "N 2"], drawn: Int[np.ndarray, " N"], budget: Budget) -> list[list[int]]:
    """Sort by cost alone, so that equals stay as drawn and meet others in every epoch; cut by budget."""
    order = drawn[np.argsort(lengths[drawn].max(axis=1), kind="stable")]
    costs, batches, first = lengths[order].max(axis=1), [], 0
    while first < len(order):
        rows = budget.rows(costs[first:])
        batches.append(order[first : first + rows].tolist())
        first += rows
    return batches
