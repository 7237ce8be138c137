"""Progress of a training: a bar on a terminal, plain lines elsewhere, and TensorBoard."""

import time
from collections.abc import Mapping
from contextlib import suppress
from pathlib import Path
from typing import Any

from rich.console import Console
from rich.progress import BarColumn, MofNCompleteColumn, Progress, TaskID, TextColumn, TimeElapsedColumn
from rich.progress import TimeRemainingColumn as RemainingColumn


class TensorBoard:
    """A callback for `train` that writes metrics as TensorBoard events."""

    def __init__(self, folder: Path) -> None:
        try:
            # late imports: the package is optional
            from tensorboard.compat.proto.event_pb2 import Event
            from tensorboard.compat.proto.summary_pb2 import Summary
            from tensorboard.summary.writer.event_file_writer import EventFileWriter
        except ImportError:
            raise ImportError(
                "TensorBoard needs the tensorboard package. Install it with: pip install tensorboard"
            ) from None
        self._event, self._summary = Event, Summary
        self._writer = EventFileWriter(str(folder))

    def __call__(self, record: Mapping[str, Any]) -> None:
        """Write the numbers of a record under its step."""
        # integers such as step and epoch are not metrics
        flat = {f"training/{name}": value for name, value in record.items() if isinstance(value, float)}
        flat |= {f"validation/{name}": value for name, value in record.get("validation", {}).items()}
        # None is a value that was not finite
        values = [self._summary.Value(tag=tag, simple_value=value) for tag, value in flat.items() if value is not None]
        self._writer.add_event(
            self._event(wall_time=time.time(), step=record["step"], summary=self._summary(value=values))
        )
        self._writer.flush()


SECONDS_BETWEEN_LINES = 10.0


class ProgressDisplay:
    """Shows steps and metrics; `total` is the number of steps if it is known, and `unit` is that of the speed."""

    def __init__(self, console: Console, *, total: int | None, step: int, unit: str = "tokens") -> None:
        self._console = console
        self._unit = unit
        self._total = total
        self._last = 0.0
        self._bar: Progress | None = None
        self._task = TaskID(0)
        if console.is_terminal and not console.quiet:
            self._bar = Progress(
                TextColumn("training"),
                BarColumn(),
                MofNCompleteColumn(),
                TextColumn("{task.fields[metrics]}"),
                TimeElapsedColumn(),
                RemainingColumn(),
                console=console,
            )
            self._task = self._bar.add_task("training", total=total, completed=step, metrics="")
            self._bar.start()

    def advance(self, step: int) -> None:
        """Move the bar to a step."""
        if self._bar is not None:
            with suppress(OSError):
                self._bar.update(self._task, completed=step)

    def show(self, record: dict[str, Any]) -> None:
        """Show metrics: validations always, others at most once in SECONDS_BETWEEN_LINES seconds."""
        metrics = f"loss {record['loss']:.4f}  {record['tokens_per_second']:,.0f} {self._unit}/s"
        if self._bar is not None:
            with suppress(OSError):
                self._bar.update(self._task, metrics=metrics)
        # monotonic: the wall clock may be set back during a training
        now = time.monotonic()
        validation = record.get("validation")
        # without a bar every record would be a line of its own
        if validation or (self._bar is None and now - self._last >= SECONDS_BETWEEN_LINES):
            self._last = now
            of = f"/{self._total}" if self._total else ""
            scores = "".join(f"  {name} {_format(value)}" for name, value in (validation or {}).items())
            self.print(f"step {record['step']}{of}  epoch {record['epoch']}  {metrics}" + (scores and f" |{scores}"))

    def print(self, text: str) -> None:
        """Print one line above the bar."""
        # a terminal that was closed, or a pipe, takes no more text, and the training must still be saved
        with suppress(OSError):
            self._console.print(text, highlight=False, markup=False, soft_wrap=True)

    def close(self) -> None:
        """Remove the bar."""
        if self._bar is not None:
            with suppress(OSError):
                self._bar.stop()


def _format(value: float | None) -> str:
    return "not finite" if value is None else f"{value:.4g}"
