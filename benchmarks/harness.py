"""One way to measure: interleaved runs, medians with spread, ratios to a baseline, the machine beside the figures.

Machines are noisy and drift, so candidates take turns within one run, and only ratios from one run are compared.
"""

import json
import os
import platform
import statistics
import subprocess
import sys
import time
from collections.abc import Callable
from dataclasses import asdict, dataclass, field
from datetime import UTC, datetime
from pathlib import Path
from typing import Any

import torch
from rich.console import Console
from rich.table import Table

RESULTS = Path(__file__).parent / "results"
HELD_BACK = 6_000_000
"""Cycles of a GPU, about 3 ms."""


def commit() -> str | None:
    """The commit that is measured, marked where files differ from it; REGARD_COMMIT names it where there is no git."""
    if named := os.environ.get("REGARD_COMMIT"):
        return named
    line = ["git", "-C", str(Path(__file__).parent), "describe", "--always", "--abbrev=40", "--exclude=*", "--dirty"]
    try:
        return subprocess.run(line, capture_output=True, text=True, check=True).stdout.strip()
    except (OSError, subprocess.CalledProcessError):
        return None


@dataclass(frozen=True)
class Timing:
    """Seconds of one candidate: the median of its turns, and the middle half of them."""

    median: float
    low: float
    high: float
    turns: int


@dataclass(frozen=True)
class Report:
    """The results of one benchmark, as written to results/."""

    question: str
    machine: dict[str, Any]
    command: str
    timings: dict[str, Timing]
    baseline: str
    ratios: dict[str, float]
    notes: dict[str, Any] = field(default_factory=dict)
    commit: str | None = field(default_factory=commit)


def machine() -> dict[str, Any]:
    """The machine and the versions, on which the figures depend."""
    cpu = platform.processor() or platform.machine()
    info = Path("/proc/cpuinfo")
    if info.exists():
        names = [
            line.split(":", 1)[1].strip() for line in info.read_text().splitlines() if line.startswith("model name")
        ]
        cpu = names[0] if names else cpu
    found = {
        "date": datetime.now(UTC).date().isoformat(),
        "cpu": cpu,
        "cores": len(os.sched_getaffinity(0)) if hasattr(os, "sched_getaffinity") else os.cpu_count(),
        "threads": torch.get_num_threads(),
        "python": platform.python_version(),
        "torch": torch.__version__,
    }
    if torch.cuda.is_available():
        found |= {"gpu": torch.cuda.get_device_name(), "cuda": torch.version.cuda}
    return found


def clock(run: Callable[[], Any]) -> float:
    """Seconds of one run, the device's work included."""
    if torch.cuda.is_available():
        torch.cuda.synchronize()
    start = time.perf_counter()
    run()
    if torch.cuda.is_available():
        torch.cuda.synchronize()
    return time.perf_counter() - start


def device_clock(run: Callable[[], Any]) -> float:
    """Seconds of one run on the GPU itself, from a cold cache.

    As in training, where the host runs ahead: the GPU is held back for some milliseconds until launches have queued up.
    """
    start, end = (torch.cuda.Event(enable_timing=True) for _ in range(2))
    torch.empty(2**28, dtype=torch.int8, device="cuda").zero_()
    torch.cuda._sleep(HELD_BACK)
    start.record()
    run()
    end.record()
    torch.cuda.synchronize()
    return start.elapsed_time(end) / 1e3


def interleave(
    candidates: dict[str, Callable[[], Any]],
    *,
    turns: int = 15,
    warmup: int = 2,
    pause: float = 0.0,
    clock: Callable[[Callable[[], Any]], float] = clock,
) -> dict[str, Timing]:
    """Time the candidates alternately; during a pause the threads of the previous one stop spinning."""
    for run in candidates.values():
        for _ in range(warmup):
            run()
    seconds: dict[str, list[float]] = {name: [] for name in candidates}
    names = list(candidates)
    for turn in range(turns):
        # rotate the order, so that no candidate always follows the same one
        for name in names[turn % len(names) :] + names[: turn % len(names)]:
            time.sleep(pause)
            seconds[name].append(clock(candidates[name]))
    return {name: timing(measured) for name, measured in seconds.items()}


def timing(seconds: list[float]) -> Timing:
    """The median and the middle half."""
    if len(seconds) < 2:
        return Timing(seconds[0], seconds[0], seconds[0], len(seconds))
    low, median, high = statistics.quantiles(seconds, n=4)
    return Timing(median, low, high, len(seconds))


def compare(
    question: str,
    candidates: dict[str, Callable[[], Any]],
    *,
    baseline: str,
    turns: int = 15,
    warmup: int = 2,
    pause: float = 0.0,
    clock: Callable[[Callable[[], Any]], float] = clock,
    notes: dict[str, Any] | None = None,
) -> Report:
    """Measure, print a table, and give the figures as data."""
    timings = interleave(candidates, turns=turns, warmup=warmup, pause=pause, clock=clock)
    ratios = {name: found.median / timings[baseline].median for name, found in timings.items()}
    report = Report(question, machine(), command(), timings, baseline, ratios, notes or {})
    show(report)
    return report


def command() -> str:
    """The command of this process."""
    spec = sys.modules["__main__"].__spec__
    name = "benchmarks" if spec is None else spec.name.removesuffix(".__main__")
    return " ".join(["python -m", name, *sys.argv[1:]])


def show(report: Report) -> None:
    """The table of a report."""
    table = Table(title=report.question, title_justify="left")
    for column in ("", "median", "middle half", f"of {report.baseline}"):
        table.add_column(column, justify="left" if not column else "right")
    for name, found in report.timings.items():
        spread = f"{1e3 * found.low:.3g}-{1e3 * found.high:.3g} ms"
        table.add_row(name, f"{1e3 * found.median:.4g} ms", spread, f"{report.ratios[name]:.3f}")
    console = Console(width=120)
    console.print(table)
    for name, note in report.notes.items():
        console.print(f"  {name}: {note}")


def save(name: str, *reports: Report) -> Path:
    """Write results/<name>.json."""
    RESULTS.mkdir(exist_ok=True)
    path = RESULTS / f"{name}.json"
    path.write_text(json.dumps([asdict(report) for report in reports], indent=2) + "\n")
    return path


def peak_memory_mib(program: str) -> float:
    """Peak resident memory, in MiB, of a fresh Python process that runs `program`."""
    # the operating system's count for this program alone; getrusage would count the parent's memory at the fork
    measured = program + "\nprint(next(line.split()[1] for line in open('/proc/self/status') if 'VmHWM' in line))"
    process = subprocess.run([sys.executable, "-c", measured], capture_output=True, text=True, check=True)
    return float(process.stdout.split()[-1]) / 1024


def device_peak_mib(run: Callable[[], Any]) -> float:
    """Memory that a run allocates on the GPU, in MiB."""
    run()
    torch.cuda.synchronize()
    torch.cuda.reset_peak_memory_stats()
    before = torch.cuda.memory_allocated()
    run()
    return (torch.cuda.max_memory_allocated() - before) / 2**20
