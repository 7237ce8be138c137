"""Decisions from repeated measurements: yes, no, or not decidable.

Runs are paired: both lists have the same seeds in the same order.
"""

import statistics
from collections.abc import Sequence

from regard.experiments.lib.finding import clearly_above


def is_above(higher: Sequence[float], lower: Sequence[float]) -> bool | None:
    """True if clearly above, False if clearly below, None where the spread does not decide."""
    if clearly_above(higher, lower):
        return True
    return False if clearly_above(lower, higher) else None


def exceeds(higher: Sequence[float], lower: Sequence[float], *, margin: float) -> bool | None:
    """True if clearly above and the means differ by a margin that matters; None if they do, but within the spread."""
    if mean_gap(higher, lower) <= margin:
        return False
    return True if clearly_above(higher, lower) else None


def mean_gap(higher: Sequence[float], lower: Sequence[float]) -> float:
    """The difference of the means."""
    return statistics.fmean(higher) - statistics.fmean(lower)


def all_of(*facts: bool | None) -> bool | None:
    """A claim of several parts: False if one of them fails, None if none fails but one is open."""
    return False if False in facts else None if None in facts else True


def negated(fact: bool | None) -> bool | None:
    """The opposite; what is open stays open."""
    return None if fact is None else not fact
