"""The result of an experiment: a table, a figure and a verdict, computed from the measurements; and its files.

On disk the figure is PNG and SVG, the table CSV.
"""

import csv
import io
import math
import os
import statistics
from collections.abc import Callable, Iterable, Mapping, Sequence
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

from regard._utils import check_free, make_folder, write_atomic
from regard.contracts import Title
from regard.display import drawn_bytes, has_matplotlib


@dataclass(frozen=True)
class Measured:
    """A mean over repetitions with their standard deviation."""

    mean: float
    spread: float

    @classmethod
    def of(cls, values: Iterable[float]) -> "Measured":
        """From at least two repetitions: one has no standard deviation."""
        numbers = [float(value) for value in values]
        if len(numbers) < 2:
            raise ValueError(f"{len(numbers)} repetition has no standard deviation. Take 2 or more.")
        return cls(statistics.fmean(numbers), statistics.stdev(numbers))

    def __str__(self) -> str:
        return f"{digits(self.mean)} ± {digits(self.spread, 1)}"


Number = int | float
Cell = str | Number | Measured
Row = dict[str, Cell]


@dataclass(frozen=True, kw_only=True)
class Finding:
    """A tested claim. `holds` is None if the measurements do not decide. `draw` fills an empty matplotlib figure."""

    name: str
    claim: Title
    rows: tuple[Row, ...]
    verdict: Title
    holds: bool | None
    draw: Callable[[Any], None]

    @property
    def columns(self) -> tuple[str, ...]:
        """The names of the columns."""
        return tuple(self.rows[0])


@dataclass(frozen=True, kw_only=True)
class Experiment:
    """An entry of EXPERIMENTS; `run(seed=..)` returns a finding, its other arguments are sizes with defaults.

    `full` has the arguments of the recorded version, and `chinese` the labels of this experiment that are not in
    `lib.chinese.LABELS`. `bounds` has the lowest and the highest value that the studio's page offers for an argument,
    where the range that it derives from the default does not fit; with equal ones the argument is not offered.
    """

    run: Callable[..., Finding]
    number: str
    title: Title
    claim: Title
    paper: str
    full: Mapping[str, Any] = field(default_factory=dict)
    chinese: Mapping[str, str] = field(default_factory=dict)
    bounds: Mapping[str, tuple[float, float]] = field(default_factory=dict)


OUTCOMES = {
    True: Title(en="Holds.", zh="成立。"),
    False: Title(en="Does not hold.", zh="不成立。"),
    None: Title(en="Not decidable here.", zh="在此无法判定。"),
}
"""The first sentence of a verdict, by `Finding.holds`."""


def digits(value: Number, count: int = 3) -> str:
    """A number with `count` significant digits."""
    if value == 0 or not math.isfinite(value):
        return f"{value:.0f}"
    if 1e-3 <= abs(value) < 1e5:
        # digits after the point: fewer for large numbers, more for those below 1
        return f"{value:.{max(count - 1 - math.floor(math.log10(abs(value))), 0)}f}"
    return f"{value:.{max(count - 2, 0)}e}"


def format_cell(cell: Cell) -> str:
    """A cell as text, with its significant digits."""
    if isinstance(cell, Measured):
        return str(cell).replace(" ", "")
    return str(cell) if isinstance(cell, (str, int)) else digits(cell)


def clearly_above(higher: Sequence[float], lower: Sequence[float]) -> bool:
    """True if the paired differences, run by run on the same data, average above two standard errors."""
    # paired: the variation between data sets, common to both, cancels in the differences
    gaps = Measured.of(high - low for high, low in zip(higher, lower, strict=True))
    return gaps.mean > 2 * gaps.spread / math.sqrt(len(higher))


def slope(sizes: Sequence[Number], values: Sequence[Number]) -> float:
    """The exponent of the power law that the values follow: the slope of a line through their logarithms."""
    return statistics.linear_regression([math.log(size) for size in sizes], [math.log(value) for value in values]).slope


FIGURES = ("png", "svg")


def check_record(name: str, folder: Path, *, overwrite: bool) -> None:
    """Refuse before the experiment runs what could not be written after it."""
    make_folder(folder)
    # tested on the folder only; the files are tested one by one below
    if not os.access(folder, os.W_OK):
        raise ValueError(f"{folder} is not writable. Choose another folder.")
    for suffix in (*FIGURES, "csv"):
        check_free(folder / f"{name}.{suffix}", overwrite=overwrite)


def record(finding: Finding, folder: Path, *, overwrite: bool = False) -> list[Path]:
    """Write table and figure atomically and return their paths; without matplotlib there is no figure."""
    check_record(finding.name, folder, overwrite=overwrite)
    # all contents are formed before the first file is written
    contents = drawn_bytes(finding.draw, FIGURES) if has_matplotlib() else {}
    contents |= {"csv": table_bytes(finding)}
    paths = {suffix: folder / f"{finding.name}.{suffix}" for suffix in contents}
    for suffix, path in paths.items():
        write_atomic(path, contents[suffix], overwrite=overwrite)
    return list(paths.values())


def table_bytes(finding: Finding) -> bytes:
    """The table as CSV with all digits; a column with repetitions has another for their spread."""
    rows = []
    for row in finding.rows:
        cells: dict[str, object] = {}
        for column, cell in row.items():
            cells[column] = cell.mean if isinstance(cell, Measured) else cell
            # every row gets the second column, because CSV has one header for all rows
            if any(isinstance(other[column], Measured) for other in finding.rows):
                cells[f"{column} spread"] = cell.spread if isinstance(cell, Measured) else ""
        rows.append(cells)
    text = io.StringIO()
    # the same line end on every system
    writer = csv.DictWriter(text, list(rows[0]), lineterminator="\n")
    writer.writeheader()
    writer.writerows(rows)
    return text.getvalue().encode()
