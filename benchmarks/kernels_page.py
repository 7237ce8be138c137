"""Write docs/kernels.md and its figure from benchmarks/results/: `python -m benchmarks.kernels_page`."""

import json
import re
from collections import Counter
from pathlib import Path
from typing import Any

from benchmarks import ablation_page
from benchmarks.harness import RESULTS

PAGE = Path(__file__).parents[1] / "docs" / "kernels.md"
FIGURE = PAGE.with_name("additive.svg")
UNTIMED = ("peak memory", "additive attention, errors")
"""First words of reports whose figures are in the notes, not in the timings."""
OUTDATED = {"attend, Gaussian": "forward and backward"}
"""Timings of code that is no longer in the package: name -> part of the question."""
DELETED_LOOPS = """`regard` is here the fused loop that ran on a CPU at that time. It was deleted there: the section on
parallel implementations compares it with our own readable path, on batches bucketed by length as the recipes have
them."""
HEAD = """# Kernels: speed and accuracy

This page is generated from benchmarks/results/ by `python -m benchmarks.kernels_page`.

Times are medians of interleaved runs, with their interquartile range. "On the device" means the time of the GPU alone,
with all launches queued in advance; otherwise it is the time of a call on the host. The first call with new shapes or
types compiles its kernels: additive attention on a CPU takes three to five seconds.
[kernels/additive/README.md](../src/regard/kernels/additive/README.md) explains the method behind additive attention.

Errors are relative to float64, in the order context, gradients of queries, keys, energy and values. The number in
brackets is the ratio to the error of plain torch in the same precision. With inputs of size 0.001 the scores hardly
differ, and the true gradient of the queries is smaller than half precision's rounding of the values: every relative
error is large there, and plain torch's is larger.

## Exactness of fused dot attention

The weight of a query's only key is 1 whatever its score, so the gradient of that score is 0. Kernels subtract two
roundings of one number there and leave noise. It is exactly 0 here where there is one key, for the first query of
`causal()`, and wherever a mask that is written out leaves a query one key; in packed batches and in additive
attention on a CPU as well. Noise remains in FlexAttention (CUDA, long texts with a mask that is a rule), in additive
attention on CUDA, where a bias of -inf and no mask leaves one key, and where several keys are allowed but all weights
but one round to 0. It is about eps |dO| |v| |k| for each query: 1e-3 in float32 for values around 50. Values with a
mean of 0 keep it small, and `return_weights=True` removes it.

Scores that may overflow or are NaN are formed on a CPU. In compiled code and under torch.func values cannot be read,
and the context of such a query is NaN there: never zeros, and never a number where the formula has NaN. Inputs on
CUDA are not checked: NaN and overflow behave there as in torch's kernels.
"""


def load(name: str) -> list[dict[str, Any]]:
    """The reports of one benchmark; an empty list if it was not run."""
    path = RESULTS / f"{name}.json"
    return json.loads(path.read_text()) if path.exists() else []


def table(report: dict[str, Any]) -> str:
    """The timings of one report, with their ratios to the baseline."""
    ratio = f"relative to {report['baseline']}"
    lines = [f"| {report['question']} | median | interquartile range | {ratio} |", "|---|---|---|---|"]
    for name, timing in report["timings"].items():
        if name in OUTDATED and OUTDATED[name] in report["question"]:
            continue
        low, median, high = (short(1e3 * timing[each]) for each in ("low", "median", "high"))
        lines.append(f"| {name} | {median} ms | {low}-{high} ms | {short(report['ratios'][name])} |")
    return "\n".join(lines)


def short(number: float) -> str:
    """Four digits without an exponent."""
    return f"{number:,.0f}" if number >= 1000 else f"{number:.4g}"


def notes(report: dict[str, Any]) -> str:
    """The notes of one report."""
    # these are the inverse of the ratios in the table
    selected = {name: note for name, note in report["notes"].items() if not name.startswith("times ")}
    return "\n".join(f"- {name}: {note}" for name, note in selected.items())


def where(report: dict[str, Any]) -> str:
    """The machine, the date and the command of a report."""
    machine = report["machine"]
    device = machine.get("gpu") or f"{machine['cpu']}, {machine['threads']} threads"
    return f"{device}, torch {machine['torch']}, {machine['date']}: `{report['command']}`"


def section(title: str, name: str, *, tables: bool = True, note: str = "") -> str:
    """All reports of one benchmark, under a note if there is one."""
    reports = load(name)
    if not reports:
        return ""
    parts = [f"## {title}", where(reports[0]), *([note] if note else [])]
    for report in reports:
        timed = tables and not report["question"].startswith(UNTIMED)
        parts += [table(report)] if timed else [f"**{report['question']}**"]
        parts += [notes(report)] if report["notes"] else []
    return "\n\n".join(parts) + "\n"


def tests() -> str:
    """The result of the last run of the tests that need a GPU."""
    path = RESULTS / "gpu_tests.json"
    if not path.exists():
        return ""
    result = json.loads(path.read_text())
    # `again`: a later run of the files in which tests failed
    parts = [outcome(each) for each in (result, result.get("again")) if each]
    return "\n\n".join(["## Tests on a GPU", *parts]) + "\n"


def outcome(result: dict[str, Any]) -> str:
    """The counts of a run of tests, its command, and the number of failures of each function."""
    counts = ", ".join(f"{count} {name}" for name, count in result["counts"].items())
    failures = Counter(name.partition("[")[0] for name in result["failed"])
    lines = [f"- failed: {name} ({count})" for name, count in failures.items()]
    return "\n".join([f"{where(result)}\n\n`{result['command']}`: {counts}. {result.get('note', '')}\n", *lines])


def by_length() -> list[tuple[int, float, float, float]]:
    """Tokens, milliseconds forward, milliseconds forward and backward, and MiB."""
    report = next(report for report in load("additive_cuda") if "one row" in report["question"])
    rows = []
    for name, note in report["notes"].items():
        count = int(re.search(r"(\d+) tokens", name)[1])  # type: ignore[index]
        times = [
            1e3 * report["timings"][f"{count} tokens, {way}"]["median"] for way in ("forward", "forward and backward")
        ]
        rows.append((count, *times, float(note.split()[0].replace(",", ""))))
    return rows


def draw() -> None:
    """Draw time and memory against length."""
    import matplotlib.pyplot as plt

    # fixed ids: the same figure gives the same file
    plt.rcParams["svg.hashsalt"] = "regard"
    counts, forward, both, memory = zip(*by_length(), strict=True)
    figure, (left, right) = plt.subplots(1, 2, figsize=(9, 3.4), layout="constrained")
    left.loglog(counts, forward, "o-", label="forward")
    left.loglog(counts, both, "s-", label="forward and backward")
    left.set(xlabel="tokens", ylabel="ms", title="Time is quadratic in the length")
    left.legend()
    right.loglog(counts, memory, "o-", label="measured")
    right.loglog(counts, [memory[-1] * count / counts[-1] for count in counts], ":", color="grey", label="linear")
    right.set(xlabel="tokens", ylabel="MiB", title="Memory is linear in the length")
    right.legend()
    figure.savefig(FIGURE, metadata={"Date": None})


def page() -> str:
    """The text of the page."""
    parts = [
        HEAD,
        section("Additive attention on a GPU", "additive_cuda"),
        f"![time and memory against length]({FIGURE.name})\n" if load("additive_cuda") else "",
        section("Training with sine features", "additive_training", tables=False),
        section("Additive attention on a CPU", "additive"),
        section("Dot and Gaussian attention on a GPU", "attention_cuda"),
        section("Dot and Gaussian attention on a CPU", "attention"),
        section("Kernel regression on a CPU", "regression"),
        section("Cross-entropy of a large output layer on a GPU", "cross_entropy_cuda"),
        section("Cross-entropy of a large output layer on a CPU", "cross_entropy"),
        section("Recurrent decoders on a GPU", "recurrent_cuda"),
        section("Recurrent decoders on a CPU", "recurrent", note=DELETED_LOOPS),
        ablation_page.section(),
        tests(),
    ]
    return "\n".join(part for part in parts if part)


def main() -> None:
    """Write the page and its figure."""
    draw()
    PAGE.write_text(page())


if __name__ == "__main__":
    main()
