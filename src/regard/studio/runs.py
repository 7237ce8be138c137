"""Training curves: the metrics that runs append to their folders as JSON lines."""

import hashlib
import json
import os
import sys
import time
from io import BufferedIOBase
from pathlib import Path
from typing import Any

from regard._utils import nearest
from regard.checkpoint import RunFolder
from regard.serving import MissingError
from regard.studio.model_registry import ModelRegistry, printable
from regard.studio.schema.pages import MetricsLine, MetricsLines, RunCard
from regard.tasks import read_run, task_of

LIVE_SECONDS = 20.0
"""Seconds after its last line during which an unfinished run counts as live."""
MAX_LINES, MAX_BYTES = 5000, 1 << 20
"""Of one response."""
MAX_FIRST, MAX_SKIPPED = 4096, 64 << 20
NO_LINES = MetricsLines(lines=[], next=0, file="")


def list_runs(registry: ModelRegistry) -> list[RunCard]:
    """Every run that has started."""
    return [card_of(name, folder) for name, folder in registry.folders().items()]


def card_of(name: str, folder: Path) -> RunCard:
    """The progress of a run."""
    metrics = RunFolder(folder).metrics
    try:
        run = read_run(RunFolder(folder))
    except Exception as error:  # an error in one run must not hide the others
        return RunCard(name=name, system="", title=name, step=0, steps=0, live=False, problem=printable(error))
    # a run that is limited by epochs has no number of steps
    step, steps = last_step(metrics), run.training.steps or 0
    # without metrics it is not live
    seconds_since = time.time() - metrics.stat().st_mtime if metrics.is_file() else float("inf")
    return RunCard(
        name=name,
        system=run.model_name,
        title=task_of(run).models[run.model_name].title,
        step=step,
        steps=steps,
        live=seconds_since < LIVE_SECONDS and (step < steps or not steps),
        problem=None,
    )


def last_step(metrics: Path) -> int:
    """The step of the last complete line."""
    if not metrics.is_file():
        return 0
    # in bytes: a position in a text file must come from `tell`
    with metrics.open("rb") as file:
        # the end of the file is enough and the file may be large
        file.seek(max(metrics.stat().st_size - 4096, 0))
        # the cut may be in the middle of a character
        tail = file.read().decode("utf-8", "replace").splitlines()
    return next((record["step"] for line in reversed(tail) if (record := parse(line)) is not None), 0)


def parse(line: str) -> dict[str, Any] | None:
    """A complete line with a step, or None: the last line may be unfinished."""
    try:
        record = json.loads(line)
    except (ValueError, RecursionError):
        return None
    is_record = isinstance(record, dict) and isinstance(record.get("step"), int)
    return record if is_record else None


def read_run_lines(registry: ModelRegistry, name: str, after: int) -> MetricsLines:
    """Complete lines from byte `after` on; the page requests the rest from byte `next` on.

    However large the file, one call reads at most MAX_BYTES, and passes over MAX_SKIPPED of a line that is too long.
    """
    folders = registry.folders()
    if name not in folders:
        near = f" The nearest is {nearest(name, folders)!r}." if folders else ""
        raise MissingError(f"there is no run called {name!r}.{near}")
    metrics = RunFolder(folders[name]).metrics
    try:
        with metrics.open("rb") as file:
            return read_lines_after(file, after)
    except FileNotFoundError:
        return NO_LINES


def read_lines_after(file: BufferedIOBase, after: int) -> MetricsLines:
    """The lines of an open file of metrics."""
    # a file that is shorter than before was cut or replaced: without a name, the page begins again
    if after > file.seek(0, os.SEEK_END):
        return NO_LINES
    name = name_of(file)
    # the byte before, so that a position at the beginning of a line is recognised
    file.seek(max(after - 1, 0))
    if after and file.read(1) != b"\n":
        # in the middle of a line, which an earlier call found to be too long
        return MetricsLines(lines=[], next=after + skip_line(file), file=name)
    block = file.read(MAX_BYTES)
    lines = block.splitlines(keepends=True)[:MAX_LINES]
    # the last line may still be written, or be cut by the end of the block
    if lines and not lines[-1].endswith(b"\n"):
        lines.pop()
    if not lines and len(block) == MAX_BYTES:
        return MetricsLines(lines=[], next=after + len(block) + skip_line(file), file=name)
    records = [record for line in lines if (record := parse(line.decode("utf-8", "replace"))) is not None]
    return MetricsLines(lines=list(map(flatten, records)), next=after + sum(map(len, lines)), file=name)


def name_of(file: BufferedIOBase) -> str:
    """A name for the content: the first line contains a duration, so a restarted run has another one."""
    file.seek(0)
    first, newline, _ = file.read(MAX_FIRST).partition(b"\n")
    # an incomplete line changes, and is no name yet; of a very long one the beginning is enough
    is_name = newline or len(first) == MAX_FIRST
    return hashlib.sha256(first if is_name else b"").hexdigest()[:16]


def skip_line(file: BufferedIOBase) -> int:
    """The number of bytes to the end of the line, or to where this call gives up."""
    num_bytes = 0
    while num_bytes < MAX_SKIPPED and (block := file.read(MAX_BYTES)):
        end = block.find(b"\n")
        if end >= 0:
            return num_bytes + end + 1
        num_bytes += len(block)
    return num_bytes


def flatten(record: dict[str, Any]) -> MetricsLine:
    """All numbers by name; nested ones have the name of their group as a prefix."""
    values: dict[str, float] = {}
    for name, value in record.items():
        # one level of groups, such as the metrics of the validation
        inner = value.items() if isinstance(value, dict) else ()
        parts = [(f"{name}.{key}", number) for key, number in inner] if inner else [(name, value)]
        values |= {key: float(number) for key, number in parts if is_number(number) and key not in ("step", "epoch")}
    return MetricsLine(step=record["step"], values=values)


def is_number(value: object) -> bool:
    """True for a finite number in the range of a float."""
    # False for NaN and infinity; an integer may be too large for a float
    return isinstance(value, int | float) and not isinstance(value, bool) and abs(value) <= sys.float_info.max
