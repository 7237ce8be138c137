"""Batches of examples of similar length, shuffled again for every epoch.

The cost of an example is the length of its longer side. Examples are shuffled, sorted by cost and split where a batch
would exceed its budget; then the batches are shuffled. The random numbers are a bit stream that numpy guarantees never
to change, so (seed, epoch) determines the same batches on every machine, and (epoch, index) is enough for resuming.
"""

from collections.abc import Sequence
from dataclasses import dataclass
from typing import TypeVar

import numpy as np
from jaxtyping import Int

Item = TypeVar("Item")


@dataclass(frozen=True)
class TokenBudget:
    """At most `tokens` positions in the padded rectangle of either side: rows x longest, with special tokens.

    This is max_tokens of fairseq. An example that is longer than the budget has a batch of its own.
    """

    tokens: int

    def __post_init__(self) -> None:
        if self.tokens < 1:
            raise ValueError(f"a batch of {self.tokens} tokens is empty. Give 1 or more.")

    def rows(self, costs: Int[np.ndarray, " N"]) -> int:
        """The number of the first examples, with costs in ascending order, that fit into a batch."""
        # more than tokens / costs[0] examples cannot fit, as all others cost at least as much
        candidates = costs[: max(1, self.tokens // int(costs[0]))]
        # rows x longest: costs are ascending, so the last of the first n examples is the longest
        positions = candidates * np.arange(1, len(candidates) + 1)
        # at least 1, so that an example above the budget is not dropped and the loop of `_split` ends
        return max(1, int(np.searchsorted(positions, self.tokens, side="right")))


@dataclass(frozen=True)
class RowBudget:
    """`count` examples per batch, whatever their lengths."""

    count: int

    def __post_init__(self) -> None:
        if self.count < 1:
            raise ValueError(f"a batch of {self.count} rows is empty. Give 1 or more.")

    def rows(self, costs: Int[np.ndarray, " N"]) -> int:
        """The number of the first examples that fit into a batch."""
        return min(self.count, len(costs))


Budget = TokenBudget | RowBudget


@dataclass(frozen=True, kw_only=True)
class Batching:
    """Settings of batches: at most `tokens` tokens, or `rows` examples if that is given."""

    tokens: int = 4096
    rows: int | None = None
    seed: int = 0
    packed: bool = False

    @property
    def budget(self) -> Budget:
        """The size limit of a batch."""
        return TokenBudget(self.tokens) if self.rows is None else RowBudget(self.rows)

    def order(self, lengths: Int[np.ndarray, "N 2"]) -> "BucketedOrder":
        """The batch order of examples with these lengths."""
        return BucketedOrder(lengths, budget=self.budget, seed=self.seed)


class BucketedOrder:
    """Batches of examples of similar length; `lengths` has the lengths of both sides of every example."""

    def __init__(self, lengths: Int[np.ndarray, "N 2"], *, budget: Budget, seed: int = 0) -> None:
        if seed < 0:
            raise ValueError(f"the seed is {seed}. Give 0 or more.")
        self.lengths = np.asarray(lengths)
        self.budget = budget
        self.seed = seed

    def epoch(self, number: int) -> list[list[int]]:
        """The batches of an epoch as indices of examples; every example is in exactly one batch."""
        # raw output of the bit generator: numpy may change its distributions, but not this
        generator = np.random.PCG64(np.random.SeedSequence([self.seed, number]))
        keys = generator.random_raw(len(self.lengths))
        # sorting random keys permutes the examples; stable, so that equal keys have one order on every machine
        batches = _split(self.lengths, np.argsort(keys, kind="stable"), self.budget)
        # the batches are permuted by numbers of the same stream, drawn after those of the examples
        return [batches[index] for index in np.argsort(generator.random_raw(len(batches)), kind="stable")]


def batches_by_length(lengths: Int[np.ndarray, "N 2"], budget: Budget) -> list[list[int]]:
    """Batches of every example, shortest first, without random numbers: for evaluation."""
    return _split(np.asarray(lengths), np.arange(len(lengths)), budget)


def share(batch: Sequence[Item], part: int, of: int) -> list[Item]:
    """The share of process or micro-batch `part`: every `of`-th example, so that counts differ by at most 1.

    Batches are sorted by length, so the shares also have similar numbers of tokens. With fewer examples than parts some
    shares are empty.
    """
    if not 0 <= part < of:
        raise ValueError(f"part is {part}, expected 0 to {of - 1}, because there are {of} parts.")
    # strided and not contiguous: a batch is sorted by length, and each part gets short and long examples
    return list(batch[part::of])


def _split(lengths: Int[np.ndarray, "N 2"], permutation: Int[np.ndarray, " N"], budget: Budget) -> list[list[int]]:
    """Sort by cost and split by the budget."""
    # a stable sort: examples of equal cost stay shuffled, and share batches with others in every epoch
    order = permutation[np.argsort(lengths[permutation].max(axis=1), kind="stable")]
    # the cost is the longer side, since both sides of a batch are padded
    costs, batches, first = lengths[order].max(axis=1), [], 0
    while first < len(order):
        rows = budget.rows(costs[first:])
        batches.append(order[first : first + rows].tolist())
        first += rows
    return batches
