"""docs/kernels.md and its figure, out of results/: `python -m benchmarks.kernels_page`."""

import json
import re
from pathlib import Path
from typing import Any

from benchmarks.harness import RESULTS

PAGE = Path(__file__).parents[1] / "docs" / "kernels.md"
FIGURE = PAGE.with_name("additive.svg")
UNTIMED = ("peak memory", "additive attention, errors")
"""Questions whose answer is in the notes."""
OUTDATED = {"attend, Gaussian": "forward and backward"}
"""Timings of code that is no longer in the package, by name and question."""
HEAD = """# Kernels: how fast, how exact

Written by `python -m benchmarks.kernels_page` out of benchmarks/results/. Times are medians of interleaved turns, with
the middle half of them; "on the device" they are those of the GPU alone, the launches queued up beforehand, else those
of a call from begin to end. How additive attention is done is told in
[kernels/additive/README.md](../src/regard/kernels/additive/README.md). The first call of a kind compiles: additive
attention on a CPU for three to five seconds.

Errors are relative to float64, in the order context, gradients of queries, keys, energy and values, and in brackets how
many times plain torch's in the same precision. Where inputs are of size 0.001 the scores hardly differ, and the true
gradient of the queries is smaller than half precision's rounding of the values: any error is large beside it, plain
torch's larger.
"""


def load(name: str) -> list[dict[str, Any]]:
    """The reports of one benchmark; none where it was not run."""
    path = RESULTS / f"{name}.json"
    return json.loads(path.read_text()) if path.exists() else []


def table(report: dict[str, Any]) -> str:
    """One report: who took how long, and in proportion."""
    over = f"time over that of {report['baseline']}"
    lines = [f"| {report['question']} | median | middle half | {over} |", "|---|---|---|---|"]
    for name, found in report["timings"].items():
        if name in OUTDATED and OUTDATED[name] in report["question"]:
            continue
        low, median, high = (short(1e3 * found[each]) for each in ("low", "median", "high"))
        lines.append(f"| {name} | {median} ms | {low}-{high} ms | {short(report['ratios'][name])} |")
    return "\n".join(lines)


def short(number: float) -> str:
    """Four digits, and no exponent."""
    return f"{number:,.0f}" if number >= 1000 else f"{number:.4g}"


def notes(report: dict[str, Any]) -> str:
    """What stood beside the figures."""
    # the same ratios turned round would only confuse
    kept = {name: note for name, note in report["notes"].items() if not name.startswith("times ")}
    return "\n".join(f"- {name}: {note}" for name, note in kept.items())


def where(report: dict[str, Any]) -> str:
    """The machine and the command."""
    machine = report["machine"]
    device = machine.get("gpu") or f"{machine['cpu']}, {machine['threads']} threads"
    return f"{device}, torch {machine['torch']}, {machine['date']}: `{report['command']}`"


def section(title: str, name: str, *, tables: bool = True) -> str:
    """All reports of one benchmark."""
    reports = load(name)
    if not reports:
        return ""
    parts = [f"## {title}", where(reports[0])]
    for report in reports:
        timed = tables and not report["question"].startswith(UNTIMED)
        parts += [table(report)] if timed else [f"**{report['question']}**"]
        parts += [notes(report)] if report["notes"] else []
    return "\n\n".join(parts) + "\n"


def tests() -> str:
    """What the last run of the tests that need a GPU found."""
    path = RESULTS / "gpu_tests.json"
    if not path.exists():
        return ""
    found = json.loads(path.read_text())
    counts = ", ".join(f"{count} {name}" for name, count in found["counts"].items())
    lines = [f"## The tests that need a GPU\n\n{where(found)}\n\n{counts}"]
    lines += [f"- failed: {name}" for name in found["failed"]]
    return "\n".join(lines) + "\n"


def by_length() -> list[tuple[int, float, float, float]]:
    """Tokens, milliseconds forward, both ways, and MiB."""
    report = next(report for report in load("additive_cuda") if "one row" in report["question"])
    found = []
    for name, note in report["notes"].items():
        count = int(re.search(r"(\d+) tokens", name)[1])  # type: ignore[index]
        times = [
            1e3 * report["timings"][f"{count} tokens, {way}"]["median"] for way in ("forward", "forward and backward")
        ]
        found.append((count, *times, float(note.split()[0].replace(",", ""))))
    return found


def draw() -> None:
    """Time and memory against length."""
    import matplotlib.pyplot as plt

    # the same picture is the same file
    plt.rcParams["svg.hashsalt"] = "regard"
    counts, forward, both, memory = zip(*by_length(), strict=True)
    figure, (left, right) = plt.subplots(1, 2, figsize=(9, 3.4), layout="constrained")
    left.loglog(counts, forward, "o-", label="forward")
    left.loglog(counts, both, "s-", label="forward and backward")
    left.set(xlabel="tokens", ylabel="ms", title="Time grows with the square ..")
    left.legend()
    right.loglog(counts, memory, "o-", label="measured")
    right.loglog(counts, [memory[-1] * count / counts[-1] for count in counts], ":", color="grey", label="linear")
    right.set(xlabel="tokens", ylabel="MiB", title=".. memory with the length")
    right.legend()
    figure.savefig(FIGURE, metadata={"Date": None})


def page() -> str:
    """The page."""
    parts = [
        HEAD,
        section("Additive attention on a GPU", "additive_cuda"),
        f"![time and memory against length]({FIGURE.name})\n" if load("additive_cuda") else "",
        section("Does a model learn as well by sine features?", "additive_training", tables=False),
        section("Additive attention on a CPU", "additive"),
        section("Dot and Gaussian attention on a GPU", "attention_cuda"),
        section("The loss of a large readout on a GPU", "cross_entropy_cuda"),
        section("The loss of a large readout on a CPU", "cross_entropy"),
        section("Recurrent decoders on a GPU", "recurrent_cuda"),
        section("Recurrent decoders on a CPU", "recurrent"),
        tests(),
    ]
    return "\n".join(part for part in parts if part)


def main() -> None:
    """Write both."""
    draw()
    PAGE.write_text(page())


if __name__ == "__main__":
    main()
