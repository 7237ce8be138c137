"""Decisions from repeated measurements: yes, no, or not decidable."""

import statistics
from collections.abc import Sequence

from regard.experiments.lib.finding import clearly_above


def mean_gap(higher: Sequence[float], lower: Sequence[float]) -> float:
    """The difference of the means."""
    return statistics.fmean(higher) - statistics.fmean(lower)


def is_above(higher: Sequence[float], lower: Sequence[float], *, margin: float) -> bool | None:
    """True if above by more than a margin that matters; None if that much, but within the spread over seeds."""
    if mean_gap(higher, lower) <= margin:
        return False
    # paired by seed, so both lists have the same seeds in the same order
    return True if clearly_above(higher, lower) else None


def all_of(*facts: bool | None) -> bool | None:
    """A claim with several parts: one that fails refutes it, one that is open leaves it open."""
    return False if False in facts else None if None in facts else True


def negated(fact: bool | None) -> bool | None:
    """The opposite; what is open stays open."""
    return None if fact is None else not fact
