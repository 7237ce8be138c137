"""Report: what an evaluation measured, as named metrics and tables with the conditions they were measured under.

Every task builds one; the command line prints it, the studio shows it and docs/results.md is written from it. Nothing
that reads a report needs to know the task.
"""

from dataclasses import dataclass

Cell = str | int | float | None


@dataclass(frozen=True, kw_only=True)
class RunInfo:
    """What was evaluated, on what data, and how it was searched and trained."""

    task: str
    system: str
    data: str
    split: str
    examples: int
    search: str = ""
    parameters: int
    steps: int
    seed: int


@dataclass(frozen=True, kw_only=True)
class Metric:
    """One figure: `name` is its key, `title` its label, `signature` how it was computed.

    `format` is a Python format specification, such as ".2f" or ".2%".
    """

    name: str
    value: float
    title: str
    signature: str = ""
    format: str = ".4g"


@dataclass(frozen=True, kw_only=True)
class Column:
    """One column of a table; `format` applies to its numbers."""

    name: str
    title: str
    format: str = ""


@dataclass(frozen=True, kw_only=True)
class ReportTable:
    """Rows that belong together: quality by length, a confusion table, attention distances."""

    name: str
    title: str
    columns: tuple[Column, ...]
    rows: tuple[tuple[Cell, ...], ...]


@dataclass(frozen=True, kw_only=True)
class Speed:
    """How long the evaluation took, how many units it processed, and the machine."""

    seconds: float
    count: int
    unit: str
    hardware: str

    def __post_init__(self) -> None:
        # per_second divides by it
        if self.seconds <= 0:
            raise ValueError(f"seconds={self.seconds} must be more than 0. Measure with time.perf_counter.")

    @property
    def per_second(self) -> float:
        """Units per second."""
        return self.count / self.seconds


@dataclass(frozen=True, kw_only=True)
class Report:
    """Everything that was evaluated. The first metric is the one to compare systems by."""

    info: RunInfo
    metrics: tuple[Metric, ...]
    tables: tuple[ReportTable, ...] = ()
    notes: tuple[str, ...] = ()
    warnings: tuple[str, ...] = ()
    speed: Speed | None = None

    def metric(self, name: str) -> Metric | None:
        """The metric of this name, None if it does not apply to the system or the data."""
        return next((metric for metric in self.metrics if metric.name == name), None)

    def table(self, name: str) -> ReportTable | None:
        """The table of this name, if there is one."""
        return next((table for table in self.tables if table.name == name), None)
