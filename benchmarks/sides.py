"""One case of the ablation: the readable path and faster ones, on equal numbers, each checked to have run.

A side is a function and the attributes that are replaced while it runs. Before anything is timed every side is run once
with its calls counted and its numbers compared with those of the first side.
"""

import inspect
import statistics
import time
import traceback
from collections.abc import Callable, Iterator, Sequence
from contextlib import ExitStack, contextmanager
from dataclasses import dataclass, field
from types import ModuleType
from typing import Any
from unittest.mock import patch

import torch
from torch import Tensor

from benchmarks.harness import Report, clock, command, compare, machine

FEWEST_TURNS, MOST_TURNS = 3, 15

Place = tuple[Any, str]
"""A module or a class, and the name of one of its attributes."""


@dataclass(frozen=True, kw_only=True)
class Side:
    """One path. `numbers` is what must equal the first side's; `calls` must be called by it, `avoids` must not."""

    run: Callable[[], Any]
    numbers: Callable[[], Any] | None = None
    swaps: tuple[tuple[Any, str, Any], ...] = ()
    calls: tuple[Place, ...] = ()
    avoids: tuple[Place, ...] = ()

    @contextmanager
    def swapped(self) -> Iterator[None]:
        """Replace the attributes within the block."""
        with ExitStack() as stack:
            for owner, name, value in self.swaps:
                stack.enter_context(patch.object(owner, name, value))
            yield

    def __call__(self) -> Any:
        """One run with the replaced attributes."""
        with self.swapped():
            return self.run()


@dataclass(frozen=True, kw_only=True)
class Duel:
    """Sides by name, the readable one first, and how far the numbers of the others may differ from its own."""

    sides: dict[str, Side]
    tolerance: float
    notes: dict[str, Any] = field(default_factory=dict)
    clock: Callable[[Callable[[], Any]], float] = clock


@dataclass(frozen=True, kw_only=True)
class Case:
    """A duel, not yet built; `share` is its part of the time, about the seconds it takes on two CPU cores.

    `own` and `shared` are the sources that only fast paths need, this one alone or others too.
    """

    group: str
    name: str
    build: Callable[[], Duel]
    own: tuple[Any, ...] = ()
    shared: tuple[Any, ...] = ()
    share: float = 1.0


def num_lines(part: Any) -> int:
    """Source lines of a module, or of one function or class."""
    return len(inspect.getsource(part).splitlines())


def name_of(part: Any) -> str:
    """A module's name, or a function's or class's with its module's."""
    return part.__name__ if isinstance(part, ModuleType) else f"{part.__module__}.{part.__qualname__}"


def lines_of(parts: Sequence[Any]) -> dict[str, int]:
    """Source lines of each."""
    return {name_of(part): num_lines(part) for part in parts}


@contextmanager
def counted(places: Sequence[Place]) -> Iterator[dict[str, int]]:
    """How often the functions at these places are called within."""
    counts: dict[str, int] = {}

    def counting(original: Callable[..., Any], key: str) -> Callable[..., Any]:
        counts[key] = 0

        def call(*arguments: Any, **options: Any) -> Any:
            counts[key] += 1
            return original(*arguments, **options)

        return call

    with ExitStack() as stack:
        for owner, name in places:
            key = f"{owner.__name__}.{name}"
            stack.enter_context(patch.object(owner, name, counting(getattr(owner, name), key)))
        yield counts


def checked_numbers(side: Side) -> tuple[Any, dict[str, int]]:
    """The side's numbers; an error if it ran another path than intended."""
    with side.swapped(), counted([*side.calls, *side.avoids]) as counts:
        numbers = (side.numbers or side.run)()
    for owner, name in side.calls:
        if not counts[f"{owner.__name__}.{name}"]:
            raise RuntimeError(f"{owner.__name__}.{name} was not called: the intended path did not run.")
    for owner, name in side.avoids:
        if counts[f"{owner.__name__}.{name}"]:
            raise RuntimeError(f"{owner.__name__}.{name} was called: the path to be avoided ran.")
    return numbers, counts


def difference(expected: Any, actual: Any) -> float:
    """The largest relative distance of any tensor, or the share of items of any list that differ."""
    if isinstance(expected, Tensor):
        expected, actual = (tensor.detach().double().cpu() for tensor in (expected, actual))
        return float((expected - actual).norm() / expected.norm().clamp_min(1e-30))
    if isinstance(expected, dict):
        return max((difference(expected[name], actual[name]) for name in expected), default=0.0)
    pairs = list(zip(expected, actual, strict=True))
    return sum(one != other for one, other in pairs) / max(len(pairs), 1)


def checked(duel: Duel) -> tuple[dict[str, Side], dict[str, Any]]:
    """The sides that ran as intended, the first among them, and the differences of each."""
    first, *others = duel.sides
    expected, counts = checked_numbers(duel.sides[first])
    sides, notes = {first: duel.sides[first]}, {"calls counted": {first: counts}, "largest difference": {}}
    for name in others:
        try:
            numbers, notes["calls counted"][name] = checked_numbers(duel.sides[name])
        except Exception as error:
            traceback.print_exc()
            notes.setdefault("sides that failed", {})[name] = f"{type(error).__name__}: {error}"[:2_000]
            continue
        sides[name] = duel.sides[name]
        notes["largest difference"][name] = difference(expected, numbers)
    agree = all(value <= duel.tolerance for value in notes["largest difference"].values())
    return sides, notes | {"tolerance": duel.tolerance, "numbers agree": agree}


def fought(case: Case, seconds: float, *, quick: bool) -> Report:
    """The case's report: every side checked, then timed in turns for about this many seconds."""
    start = time.perf_counter()
    duel = case.build()
    sides, notes_of_check = checked(duel)
    first = next(iter(sides))
    lines = {"lines of its own": lines_of(case.own), "lines shared with others": lines_of(case.shared)}
    notes = {"group": case.group, **notes_of_check, **lines, **duel.notes}
    taken: dict[str, list[float]] = {name: [] for name in sides}
    names = {id(side): name for name, side in sides.items()}

    def timed(side: Any) -> float:
        with side.swapped():
            value = duel.clock(side.run)
        taken[names[id(side)]].append(value)
        return value

    # the check was the first warm-up; this one determines the number of turns
    once = sum(timed(side) for side in sides.values())
    left = seconds - (time.perf_counter() - start)
    turns = 2 if quick else int(min(max(left / max(once, 1e-9), FEWEST_TURNS), MOST_TURNS))
    for values in taken.values():
        values.clear()
    title = f"{case.group}: {case.name}"
    report = compare(title, dict(sides), baseline=first, turns=turns, warmup=0, clock=timed, notes=notes)
    notes["times as fast as the first"] = {name: spread_of_ratios(taken[first], taken[name]) for name in taken}
    return report


def spread_of_ratios(slow: Sequence[float], fast: Sequence[float]) -> dict[str, float]:
    """Median and middle half of the ratios, turn by turn."""
    ratios = [one / other for one, other in zip(slow, fast, strict=True)]
    low, median, high = statistics.quantiles(ratios, n=4) if len(ratios) > 1 else [ratios[0]] * 3
    return {"median": round(median, 3), "low": round(low, 3), "high": round(high, 3)}


def failed(case: Case, error: str) -> Report:
    """The report of a case that could not be measured, with the reason."""
    notes = {"group": case.group, "error": error}
    return Report(f"{case.group}: {case.name}", machine(), command(), {}, "", {}, notes)


def free_device() -> None:
    """Free the memory of the last case on the GPU."""
    if torch.cuda.is_available():
        torch.cuda.synchronize()
        torch.cuda.empty_cache()
