"""A finding: table, figure and computed verdict, and its files on disk.

What an experiment hands back: a table, a figure and a verdict, all from the numbers it measured.

A finding on disk: the figure as PNG and SVG, the numbers as CSV.
"""

import csv
import io
import math
import os
import statistics
from collections.abc import Callable, Iterable, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Any

from regard._utils import check_free, make_folder, write_atomic
from regard.display import drawn_bytes, has_matplotlib


@dataclass(frozen=True)
class Measured:
    """A mean over repetitions, and how far they lie apart (their standard deviation)."""

    mean: float
    spread: float

    @classmethod
    def of(cls, values: Iterable[float]) -> "Measured":
        """Of at least two repetitions: one alone does not say what chance did."""
        given = [float(value) for value in values]
        if len(given) < 2:
            raise ValueError(f"{len(given)} repetition says nothing about chance. Take 2 or more.")
        return cls(statistics.fmean(given), statistics.stdev(given))

    def __str__(self) -> str:
        return f"{digits(self.mean)} ± {digits(self.spread, 1)}"


Number = int | float
Cell = str | Number | Measured
Row = dict[str, Cell]


@dataclass(frozen=True, kw_only=True)
class Finding:
    """A claim put to the test. `draw` takes an empty matplotlib figure and fills it."""

    name: str
    claim: str
    rows: tuple[Row, ...]
    verdict: str
    holds: bool
    draw: Callable[[Any], None]

    @property
    def columns(self) -> tuple[str, ...]:
        """What each row tells."""
        return tuple(self.rows[0])


@dataclass(frozen=True, kw_only=True)
class Experiment:
    """One line of EXPERIMENTS; `run(seed=..)` gives a finding, its other arguments are sizes with defaults."""

    run: Callable[..., Finding]
    number: str
    claim: str
    paper: str


def digits(value: Number, count: int = 3) -> str:
    """As many digits as count."""
    if value == 0 or not math.isfinite(value):
        return f"{value:.0f}"
    if 1e-3 <= abs(value) < 1e5:
        return f"{value:.{max(count - 1 - math.floor(math.log10(abs(value))), 0)}f}"
    return f"{value:.{max(count - 2, 0)}e}"


def shown(cell: Cell) -> str:
    """A cell of a table, to the digits that count."""
    if isinstance(cell, Measured):
        return str(cell).replace(" ", "")
    return str(cell) if isinstance(cell, (str, int)) else digits(cell)


def clearly_above(higher: Sequence[float], lower: Sequence[float]) -> bool:
    """Whether one exceeds the other by more than two standard errors, run by run on the same data."""
    gaps = Measured.of(one - other for one, other in zip(higher, lower, strict=True))
    return gaps.mean > 2 * gaps.spread / math.sqrt(len(higher))


def slope(sizes: Sequence[Number], values: Sequence[Number]) -> float:
    """The power of size that the values follow: a straight line through their logarithms."""
    return statistics.linear_regression([math.log(size) for size in sizes], [math.log(value) for value in values]).slope


FIGURES = ("png", "svg")


def check_record(name: str, folder: Path, *, overwrite: bool) -> None:
    """Refuse before the work what would be refused after it."""
    make_folder(folder)
    if not os.access(folder, os.W_OK):
        raise ValueError(f"{folder} may not be written to. Choose another folder.")
    for kind in (*FIGURES, "csv"):
        check_free(folder / f"{name}.{kind}", overwrite=overwrite)


def record(finding: Finding, folder: Path, *, overwrite: bool = False) -> list[Path]:
    """Write every kind, whole or not at all, and say where; without matplotlib there is no figure."""
    check_record(finding.name, folder, overwrite=overwrite)
    contents = drawn_bytes(finding.draw, FIGURES) if has_matplotlib() else {}
    contents |= {"csv": table_bytes(finding)}
    paths = {kind: folder / f"{finding.name}.{kind}" for kind in contents}
    for kind, path in paths.items():
        write_atomic(path, contents[kind], overwrite=overwrite)
    return list(paths.values())


def table_bytes(finding: Finding) -> bytes:
    """All digits; what was measured several times has a column for its spread."""
    rows = []
    for row in finding.rows:
        cells: dict[str, object] = {}
        for column, cell in row.items():
            cells[column] = cell.mean if isinstance(cell, Measured) else cell
            if any(isinstance(other[column], Measured) for other in finding.rows):
                cells[f"{column} spread"] = cell.spread if isinstance(cell, Measured) else ""
        rows.append(cells)
    text = io.StringIO()
    writer = csv.DictWriter(text, list(rows[0]), lineterminator="\n")
    writer.writeheader()
    writer.writerows(rows)
    return text.getvalue().encode()
