"""Parts of the pages of results: tables, machines, timings."""

import json
from collections.abc import Iterable, Sequence
from pathlib import Path
from typing import Any

from regard.contracts.report import Report
from regard.experiments.lib import Measured


def table(head: Sequence[str], rows: Iterable[Sequence[str]], *, left: int = 1) -> str:
    """A Markdown table; the first `left` columns are words, the others figures."""
    rule = ["---"] * left + ["---:"] * (len(head) - left)
    return "\n".join("| " + " | ".join(row) + " |" for row in (head, rule, *rows)) + "\n"


def figure_of(report: Report, name: str) -> float:
    """The value of a metric that the report must have."""
    metric = report.metric(name)
    assert metric is not None, f"{report.info.system} on {report.info.split} has no {name}"
    return metric.value


def seeds_by_name(runs: dict[str, Any]) -> dict[str, list[Any]]:
    """Runs named `<name>-<seed>` by their name, names in the order of the file, seeds in ascending order."""
    groups: dict[str, list[Any]] = {}
    for key in sorted(runs, key=lambda key: int(key.rpartition("-")[2])):
        groups.setdefault(key.rpartition("-")[0], []).append(runs[key])
    return {name: groups[name] for name in dict.fromkeys(key.rpartition("-")[0] for key in runs)}


def over_seeds(values: Sequence[float], decimals: int) -> str:
    """A mean, and the standard deviation where there are several."""
    if len(values) < 2:
        return "".join(f"{value:.{decimals}f}" for value in values)
    measured = Measured.of(values)
    return f"{measured.mean:.{decimals}f} ± {measured.spread:.{decimals}f}"


def hardware(machine: dict[str, Any]) -> str:
    """The GPU, or the CPU and its number of cores."""
    return str(machine["gpu"]) if "gpu" in machine else f"{machine['cpu']}, {machine['cores']} cores"


def machines(runs: Iterable[dict[str, Any]]) -> str:
    """The machines of some runs, as a list."""
    lines = {
        f"- {one.get('gpu', one.get('cpu'))}, {one['cores']} CPU cores, Python {one['python']}, torch {one['torch']}, "
        + one["date"]
        + (f"; {one['shared']}" if "shared" in one else "")
        for one in (run["machine"] for run in runs)
    }
    return "\n".join(sorted(lines)) + "\n"


def throughput(path: Path) -> str:
    """One file of timings: tokens per second of each candidate."""
    reports_of = [report for report in json.loads(path.read_text()) if "tokens a second" in report.get("notes", {})]
    if not reports_of:
        return ""
    names = list(dict.fromkeys(name for report in reports_of for name in report["notes"]["tokens a second"]))
    rows = [
        (report["question"], *(f"{rates[name]:,.0f}" if name in rates else "" for name in names))
        for report in reports_of
        for rates in (report["notes"]["tokens a second"],)
    ]
    one = reports_of[0]["machine"]
    loads = [report["notes"].get("load of the machine at the start") for report in reports_of]
    busy = [load for load in loads if load is not None]
    loaded = f" Load of the machine at the start of each question: {min(busy)} to {max(busy)}." if busy else ""
    where = f"{one.get('gpu', one['cpu'])}, {one['cores']} cores, torch {one['torch']}"
    return f"`{reports_of[0]['command']}`: tokens per second, median of interleaved runs. {where}.{loaded}\n\n" + table(
        ("question", *names), rows
    )
