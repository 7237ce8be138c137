"""Training curves: the JSON lines of any run's folder, as far as they are written."""

import hashlib
import json
import sys
import time
from pathlib import Path
from typing import Any

from regard._utils import nearest
from regard.checkpoint import RunFolder
from regard.serving import MissingError
from regard.studio.model_registry import ModelRegistry, printable
from regard.studio.schema.pages import Line, Lines, RunCard
from regard.tasks import read_run, task_of

QUIET = 20.0
"""Seconds after its last line for which an unfinished run counts as live."""
MAX_LINES = 5000


def list_runs(registry: ModelRegistry) -> list[RunCard]:
    """Every run that has begun."""
    return [card_of(name, folder) for name, folder in registry.folders().items()]


def card_of(name: str, folder: Path) -> RunCard:
    """How far a run is."""
    metrics = RunFolder(folder).metrics
    try:
        run = read_run(RunFolder(folder))
    except Exception as error:  # whatever is wrong with one run, the others are listed
        return RunCard(name=name, system="", title=name, step=0, steps=0, live=False, problem=printable(error))
    step, steps = last_step(metrics), run.training.steps or 0
    quiet = time.time() - metrics.stat().st_mtime if metrics.is_file() else float("inf")
    return RunCard(
        name=name,
        system=run.model_name,
        title=task_of(run).models[run.model_name].title,
        step=step,
        steps=steps,
        live=quiet < QUIET and (step < steps or not steps),
        problem=None,
    )


def last_step(metrics: Path) -> int:
    """The step of the last whole line."""
    if not metrics.is_file():
        return 0
    with metrics.open("rb") as file:
        file.seek(max(metrics.stat().st_size - 4096, 0))
        tail = file.read().decode("utf-8", "replace").splitlines()
    return next((record["step"] for line in reversed(tail) if (record := parse(line)) is not None), 0)


def parse(line: str) -> dict[str, Any] | None:
    """A line with a step, or nothing: the last one may still be being written."""
    try:
        record = json.loads(line)
    except (ValueError, RecursionError):
        return None
    whole = isinstance(record, dict) and isinstance(record.get("step"), int)
    return record if whole else None


def read_run_lines(registry: ModelRegistry, name: str, after: int) -> Lines:
    """Lines from number `after` on."""
    folders = registry.folders()
    if name not in folders:
        near = f" The nearest is {nearest(name, folders)!r}." if folders else ""
        raise MissingError(f"there is no run called {name!r}.{near}")
    metrics = RunFolder(folders[name]).metrics
    if not metrics.is_file():
        return Lines(lines=[], next=0, file="")
    lines = metrics.read_text(encoding="utf-8", errors="replace").splitlines(keepends=True)
    whole = [line for line in lines if line.endswith("\n")]
    # a run that was begun anew has another first line: it tells how long its first steps took
    file = hashlib.sha256("".join(whole[:1]).encode()).hexdigest()[:16]
    chosen = whole[after : after + MAX_LINES]
    records = [record for line in chosen if (record := parse(line)) is not None]
    return Lines(lines=[flatten(record) for record in records], next=after + len(chosen), file=file)


def flatten(record: dict[str, Any]) -> Line:
    """Numbers by name; those of the validation have a prefix."""
    values: dict[str, float] = {}
    for name, value in record.items():
        inner = value.items() if isinstance(value, dict) else ()
        parts = [(f"{name}.{key}", number) for key, number in inner] if inner else [(name, value)]
        values |= {key: float(number) for key, number in parts if is_number(number) and key not in ("step", "epoch")}
    return Line(step=record["step"], values=values)


def is_number(value: object) -> bool:
    """A finite one that a float can hold."""
    return isinstance(value, int | float) and not isinstance(value, bool) and abs(value) <= sys.float_info.max
