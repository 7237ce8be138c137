"""Section "Parallel implementations" of docs/kernels.md, from benchmarks/results/ablation.json and ablation_cuda.json.

Every figure comes from these files. The decisions, and the reasons for them, are the table DECISIONS.
"""

import json
import re
from collections.abc import Iterable, Mapping
from dataclasses import dataclass
from typing import Any

from benchmarks.harness import RESULTS
from benchmarks.markdown import table

FILES = ("ablation", "ablation_cuda")
"""On a CPU, and on a GPU."""
RATIOS = "times as fast as the first"
UNMEASURED = "-"


@dataclass(frozen=True, kw_only=True)
class Decision:
    """One implementation: the cases and the candidates that measure it, and the decision.

    `cases` is a pattern for a case's `group: name`, `candidates` one for the timings that count.
    """

    implementation: str
    cases: str
    candidates: str
    decision: str
    reason: str


FUSED = r"fused.*"
DECISIONS = (
    Decision(
        implementation="fused decoding of the Transformer",
        cases=r"transformer decoding: (beam|greedy)",
        candidates=r"fused(, by F\.linear)?",
        decision="kept",
        reason="about twice as fast on a GPU; on a CPU only beams over 64 sentences gain less than 1.3 times. It reads "
        "the model's weights at every step: copies of them were deleted",
    ),
    Decision(
        implementation="fused encoding of the Transformer",
        cases=r"transformer decoding: encode",
        candidates=FUSED,
        decision="deleted",
        reason="products take most of the time; on a CPU it was measured with the oneDNN product only",
    ),
    Decision(
        implementation="fused decoding of GPT",
        cases=r"GPT decoding",
        candidates=r"fused, (by F\.linear|no graph)",
        decision="kept",
        reason="over 1.3 times as fast in every case",
    ),
    Decision(
        implementation="decode graph of GPT: a step as one CUDA graph",
        cases=r"GPT decoding: .* GPU",
        candidates=r"fused, one CUDA graph a step",
        decision="kept",
        reason="the host launches one graph in place of the kernels of every layer",
    ),
    Decision(
        implementation="recurrent training loops on CUDA, inside a captured graph",
        cases=r"recurrent training step: .* one CUDA graph",
        candidates=FUSED,
        decision="kept",
        reason="over 1.5 times as fast in every case, and graphs are the default on one GPU",
    ),
    Decision(
        implementation="recurrent training loops on CUDA, eager",
        cases=r"recurrent training step: .* eager",
        candidates=FUSED,
        decision="kept",
        reason="the same code as inside a graph",
    ),
    Decision(
        implementation="recurrent training loops on a CPU, which drop finished rows",
        cases=r"recurrent training step: .* CPU",
        candidates=r"fused",
        decision="deleted",
        reason="under 1.3 times as fast in every case, slower for bidirectional LSTMs",
    ),
    Decision(
        implementation="packed rows on CUDA, inside a captured graph",
        cases=r"packed rows: .* one CUDA graph",
        candidates=r"packed, by its kernel",
        decision="kept",
        reason="no time is spent on padding",
    ),
    Decision(
        implementation="packed rows, eager or on a CPU",
        cases=r"packed rows: .*(eager|CPU)",
        candidates=r"packed.*",
        decision="kept",
        reason="no faster, and no code of its own: batches have one format on every device, and attention pads them "
        "where the kernel does not apply",
    ),
    Decision(
        implementation="best columns by blocks, from 16 rows on",
        cases=r"best columns: .* (16|80|320) rows",
        candidates=r"by blocks",
        decision="kept",
        reason="the search of a large vocabulary is a notable part of a decoding step",
    ),
    Decision(
        implementation="best columns by blocks, fewer rows",
        cases=r"best columns: .* (1|5) rows",
        candidates=r"by blocks",
        decision="not used",
        reason="the additional calls cost more than they save",
    ),
    Decision(
        implementation="chunked cross-entropy",
        cases=r"chunked cross-entropy",
        candidates=r"chunked",
        decision="kept",
        reason="1.4 to 1.7 times as fast on a CPU, and on both devices the logits of a batch are never all in memory",
    ),
    Decision(
        implementation="parallel decoding on a CPU",
        cases=r"parallel decoding",
        candidates=r"in parallel",
        decision="deleted",
        reason="under 1.3 times as fast",
    ),
    Decision(
        implementation="oneDNN linear layer",
        cases=r"oneDNN product",
        candidates=r"oneDNN.*",
        decision="kept on AMD",
        reason="slower than `F.linear` in most cases on this Intel Xeon; weights in oneDNN's own layout are copies, "
        "which edits miss. On an AMD EPYC it is 1.1 to 2.8 times as fast on weights as they lie from a million "
        "multiplications on, so fused decoding uses it on x86 processors that are not Intel's (results/product.json)",
    ),
    Decision(
        implementation="Gaussian backward kernels",
        cases=r"Gaussian backward: training step",
        candidates=r"as it is",
        decision="deleted",
        reason="the dot product of features, which is kept, trains as fast",
    ),
)

HEAD = """## Parallel implementations

Where a second, faster implementation stood beside the readable one, both were timed in turns within one run, with the
sizes of the recipes and with equal results. A ratio says how many times as fast as the readable path an implementation
is: the median over the turns, and in the first table the range over all cases. An implementation is kept if it reaches
1.3 at the sizes that users get by default. `lines` counts the source lines, at the measured commit, that only this
implementation needed, and after a plus sign those that it shared with other fast paths. `python -m benchmarks ablation`
measures what is kept.
"""
NOTE = """All cases. The first candidate of each table is the readable path, or for Gaussian scores the formula
that `features, dot product` replaced.
"""


def section() -> str:
    """The decisions, and one table for each group of cases."""
    reports = [report for name in FILES for report in load(name)]
    parts = [HEAD, where(reports), decisions(reports), NOTE]
    groups = dict.fromkeys(report["notes"]["group"] for report in reports)
    parts += [cases([report for report in reports if report["notes"]["group"] == group]) for group in groups]
    return "\n".join(parts)


def load(name: str) -> list[dict[str, Any]]:
    """The reports of one device."""
    reports: list[dict[str, Any]] = json.loads((RESULTS / f"{name}.json").read_text())
    return reports


def where(reports: Iterable[dict[str, Any]]) -> str:
    """Machines, dates, commits and commands, each once."""
    lines = []
    for report in reports:
        machine = report["machine"]
        device = machine.get("gpu") or f"{machine['cpu']}, {machine['threads']} threads"
        # the path of the results depends on the machine and is left out
        command = re.sub(r" --(out|commit) \S+", "", report["command"])
        lines.append(f"- {device}, torch {machine['torch']}, {machine['date']}, commit {report['commit']}: `{command}`")
    return "\n".join(dict.fromkeys(lines)) + "\n"


def decisions(reports: list[dict[str, Any]]) -> str:
    """Every implementation with its ratios, its lines, and the decision."""
    rows = []
    for each in DECISIONS:
        matching = [report for report in reports if re.match(each.cases, report["question"])]
        assert matching, f"no case of the ablation matches {each.cases!r}"
        on_cpu, on_gpu = (
            span(
                ratio
                for report in matching
                if ("gpu" in report["machine"]) is gpu
                for ratio in ratios_of_decision(report, each)
            )
            for gpu in (False, True)
        )
        rows.append((each.implementation, on_cpu, on_gpu, lines_of(matching), each.decision, each.reason))
    return table(("implementation", "CPU", "GPU", "lines", "decision", "why"), rows, left=6)


def ratios_of_decision(report: Mapping[str, Any], decision: Decision) -> list[float]:
    """The ratios of the candidates that count in one case.

    Where a candidate without oneDNN was timed, it represents the remaining code, and others are omitted.
    """
    ratios = {name: ratio["median"] for name, ratio in report["notes"][RATIOS].items() if name != report["baseline"]}
    counted = {name: ratio for name, ratio in ratios.items() if re.fullmatch(decision.candidates, name)}
    current = [ratio for name, ratio in counted.items() if name.endswith("F.linear")]
    return current or list(counted.values())


def span(ratios: Iterable[float]) -> str:
    """The lowest and the highest ratio, once if they are equal."""
    ordered = sorted(ratios)
    if not ordered:
        return UNMEASURED
    low, high = f"{ordered[0]:.2f}", f"{ordered[-1]:.2f}"
    return low if low == high else f"{low}-{high}"


def lines_of(reports: Iterable[dict[str, Any]]) -> str:
    """Lines of their own and lines shared with other fast paths; parts that several cases need are counted once."""
    own: dict[str, int] = {}
    shared: dict[str, int] = {}
    for report in reports:
        own |= report["notes"]["lines of its own"]
        shared |= report["notes"]["lines shared with others"]
    shared = {name: count for name, count in shared.items() if name not in own}
    return f"{sum(own.values())}" + (f" + {sum(shared.values())}" if shared else "")


def cases(reports: list[dict[str, Any]]) -> str:
    """The ratios of one group, a row for each case and a column for each candidate."""
    group = reports[0]["notes"]["group"]
    names = list(dict.fromkeys(name for report in reports for name in report["notes"][RATIOS]))
    rows = []
    for report in reports:
        ratios = report["notes"][RATIOS]
        case = report["question"].removeprefix(f"{group}: ")
        rows.append((case, *(f"{ratios[name]['median']:.2f}" if name in ratios else "" for name in names)))
    return table((group, *names), rows)
