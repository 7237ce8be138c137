"""Times of several computations side by side: they take turns, so that a slow moment of the machine meets all of them.

A time is the median of its turns, its spread half of the range of their middle half: outliers move neither.
"""

import math
import random
import statistics
import time
from collections.abc import Callable, Hashable, Mapping, Sequence
from typing import TypeVar

from regard.experiments.lib.finding import Measured

Name = TypeVar("Name", bound=Hashable)
SIGNIFICANCE = 0.05


def interleaved(
    candidates: Mapping[Name, Callable[[], object]], *, turns: int, calls: int = 3
) -> dict[Name, list[float]]:
    """Seconds of every candidate in every turn; a turn is the fastest of several calls in a row."""
    seconds: dict[Name, list[float]] = {name: [] for name in candidates}
    names = list(candidates)
    # of its own, since the number of turns must not change the random numbers of the experiment
    order = random.Random(0)
    for _ in range(turns):
        # in random order: a computation that always follows the same one would find the caches as that one leaves them
        order.shuffle(names)
        for name in names:
            # the fastest call is the one during which no other process ran
            seconds[name].append(min(seconds_of(candidates[name]) for _ in range(calls)))
    return seconds


def seconds_of(compute: Callable[[], object]) -> float:
    """Seconds of one call."""
    start = time.perf_counter()
    compute()
    return time.perf_counter() - start


def median_of(values: Sequence[float]) -> Measured:
    """The median and half of the range of the middle half."""
    low, median, high = statistics.quantiles(values, n=4)
    return Measured(median, (high - low) / 2)


def is_slower(first: Sequence[float], second: Sequence[float]) -> bool | None:
    """True if the first is slower in more turns than chance explains, False if faster, None if neither is clear.

    The sign test: if both took equally long, each would be slower in half of the turns.
    """
    slower = sum(one > other for one, other in zip(first, second, strict=True))
    faster = sum(one < other for one, other in zip(first, second, strict=True))
    if slower == faster:
        return None
    if two_sided(max(slower, faster), slower + faster) >= SIGNIFICANCE:
        return None
    return slower > faster


def two_sided(successes: int, turns: int) -> float:
    """The probability that fair coins fall at least as unevenly; more than half are successes."""
    # the upper tail, and the lower one of equal size
    return 2 * sum(math.comb(turns, count) for count in range(successes, turns + 1)) / 2**turns
