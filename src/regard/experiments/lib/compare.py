"""Decisions from repeated measurements: yes, no, or not decidable."""

from collections.abc import Iterable, Sequence

from regard.experiments.lib.finding import clearly_above


def is_above(higher: Sequence[float], lower: Sequence[float]) -> bool | None:
    """True if clearly above, False if clearly below, None where the spread does not decide; runs are paired."""
    if clearly_above(higher, lower):
        return True
    return False if clearly_above(lower, higher) else None


def all_hold(parts: Iterable[bool | None]) -> bool | None:
    """A claim of several parts: False if one of them fails, None if none fails but one is undecided."""
    outcomes = list(parts)
    if False in outcomes:
        return False
    return None if None in outcomes else True
