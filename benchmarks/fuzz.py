"""Random cases of attention against formulas written once more: `python -m benchmarks.fuzz --minutes 30 --seed 0`.

Scores x alignments x mask expressions x precisions x shapes, each formed, fused, mapped by torch.vmap and, for a share
of the time, compiled. Contexts, weights, gradients and NaN are compared with float64. Calls that break a rule must be
refused by a sentence. The counts are recorded in results/fuzz.json.

Every case is drawn from one number, which is printed with a problem: `python -m benchmarks.fuzz --case NUMBER` repeats
it alone. A run of seed S has the cases S * 10^9, S * 10^9 + 1 ..; `--first` begins at a later one. Ctrl-C ends a run,
and what was counted so far is recorded.
"""

import argparse
import random
import time
import warnings
from collections.abc import Callable
from dataclasses import dataclass, field
from typing import Any

import torch
from torch import Tensor

from benchmarks.fuzz_cases import WRONG, Case, Scaled, draw
from benchmarks.fuzz_checks import Expected, Findings, check_case, compare, is_sentence
from benchmarks.harness import Report, command, machine, save
from regard import attend
from regard.attention import ALIGNMENTS
from regard.attention.masks import causal, padding, window
from regard.attention.scores import Additive, Cosine, Gaussian, ScaledDot

CASES_PER_SEED = 10**9
SHOWN = 20
"""Problems that are printed of each category."""
PROBLEMS = (
    "wrong contexts", "wrong weights", "wrong gradients", "hidden NaN", "created NaN", "unexpected errors",
    "accepted wrong calls",
)  # fmt: skip
COMPILED_SHARE = 0.2
"""The share of the time that compiled attention may take."""
LENGTHS = torch.tensor([3, 0])
TEMPLATES: tuple[tuple[str, Any, tuple[Any, ...] | None, torch.dtype], ...] = (
    ("scaled_dot", ScaledDot(), ("causal",), torch.float32),
    ("cosine", Cosine(scale=-2.0), ("causal",), torch.float32),
    ("gaussian", Gaussian(width=0.5), ("padding", LENGTHS), torch.float32),
    ("own", Scaled(-1.5), ("&", ("causal",), ("padding", LENGTHS)), torch.float64),
    ("scaled_dot", ScaledDot(), None, torch.bfloat16),
    ("own", Scaled(0.0), ("~", ("window", 1)), torch.float16),
    ("additive", Additive(query_size=4, key_size=4, hidden_size=3), ("padding", LENGTHS), torch.float32),
    ("cosine", Cosine(scale=3.0), ("padding", LENGTHS), torch.float64),
)
"""Score, mask expression and precision of attention that is compiled once and run with many tensors."""


@dataclass
class CompiledCases:
    """Attention that is compiled once for each template, within a share of the time."""

    backend: str = "aot_eager"
    functions: dict[int, Callable[..., Tensor]] = field(default_factory=dict)
    seconds: float = 0.0

    def check(self, seed: int, findings: Findings) -> None:
        """One case of a template."""
        start = time.perf_counter()
        # a template more for every twenty cases, so that most cases reuse a graph
        number = random.Random(seed).randrange(min(len(TEMPLATES), 1 + findings.counts["compiled contexts"] // 20))
        case = template_case(number, seed)
        if number not in self.functions:
            self.functions[number] = self.compile(case)
        inputs = [tensor.clone().requires_grad_() for tensor in case.tensors]
        findings.counts["cases"] += 1
        try:
            context = self.functions[number](*inputs)
            compare(case, Expected(case), findings, context=context, inputs=inputs, mode="compiled")
        # whatever a call raises is a finding
        except Exception as error:
            findings.add("unexpected errors", case, f"compiled: {type(error).__name__}: {str(error)[:200]}")
        self.seconds += time.perf_counter() - start

    def compile(self, case: Case) -> Callable[..., Tensor]:
        """The case's attention as one graph."""
        masks = {None: None, "causal": causal(), "padding": padding(LENGTHS), "~": ~window(1)}
        name = None if case.mask is None else case.mask[0]
        mask = causal() & padding(LENGTHS) if name == "&" else masks[name]

        def run(*tensors: Tensor) -> Tensor:
            return attend(*tensors, score=case.score, mask=mask).context

        function: Callable[..., Tensor] = torch.compile(run, fullgraph=True, dynamic=False, backend=self.backend)
        return function


def template_case(number: int, seed: int) -> Case:
    """Random tensors for a template, some with NaN."""
    score_name, score, mask, dtype = TEMPLATES[number]
    generator = torch.Generator().manual_seed(seed)
    tensors = [torch.randn(2, length, 4, generator=generator, dtype=torch.float64).to(dtype) for length in (5, 5, 5)]
    broken = random.Random(seed).choice(["", "", "nan query", "nan key"])
    if broken:
        tensors[0 if broken == "nan query" else 1][seed % 2, seed % 5, seed % 4] = torch.nan
    return Case(
        seed=seed, score_name=score_name, align_name="softmax", mask=mask, steps=torch.arange(5), broken=broken,
        score=score.to(dtype) if isinstance(score, torch.nn.Module) else score, align=ALIGNMENTS["softmax"].build(),
        tensors=(tensors[0], tensors[1], tensors[2]),
    )  # fmt: skip


def check_wrong_calls(findings: Findings) -> None:
    """Every call that breaks a rule is refused by a sentence."""
    for name, call in WRONG.items():
        try:
            call()
        # the kind of the error is what is checked
        except Exception as error:
            if is_sentence(error):
                findings.counts["refusals by sentence"] += 1
            else:
                findings.add("unexpected errors", name, f"{type(error).__name__}: {str(error)[:200]}")
        else:
            findings.add("accepted wrong calls", name)


def run(
    *, seed: int = 0, first: int = 0, num_cases: int | None = None, minutes: float | None = None, compiled: bool = True
) -> Findings:
    """Check cases up to a number of them, or until the time is over."""
    findings, graphs, start = Findings(), CompiledCases(), time.perf_counter()
    number = seed * CASES_PER_SEED + first
    check_wrong_calls(findings)
    try:
        while num_cases is None or findings.counts["cases"] < num_cases:
            elapsed, num_problems = time.perf_counter() - start, len(findings.problems)
            if minutes is not None and elapsed > 60 * minutes:
                break
            if compiled and graphs.seconds < COMPILED_SHARE * elapsed:
                graphs.check(number, findings)
            else:
                check_case(draw(number), findings)
            number += 1
            # at once, so that a process that dies has named its case
            for problem in findings.problems[num_problems:]:
                print(problem, flush=True)
    except KeyboardInterrupt:
        print(f"ended before case {number}")
    findings.counts["seconds"] = round(time.perf_counter() - start)
    return findings


def report(findings: Findings, seed: int) -> Report:
    """The counts as a record; of the problems, the first of each category."""
    counts = {name: findings.counts[name] for name in PROBLEMS} | dict(findings.counts)
    notes = {"seed": seed, "counts": counts, "problems": shown(findings)}
    return Report("Does attention compute its formulas?", machine(), command(), {}, "", {}, notes)


def shown(findings: Findings) -> list[str]:
    """The first problems of each category."""
    lines: list[str] = []
    for name in PROBLEMS:
        lines += [line for line in findings.problems if line.startswith(f"{name}:")][:SHOWN]
    return lines


def main() -> int:
    """Run, print and record; the exit status says whether there was a problem."""
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--minutes", type=float, default=30.0, help="time of the run")
    parser.add_argument("--seed", type=int, default=0, help="which cases")
    parser.add_argument("--first", type=int, default=0, help="number of the first case of this seed")
    parser.add_argument("--case", type=int, help="repeat this case alone; nothing is recorded")
    arguments = parser.parse_args()
    warnings.simplefilter("ignore")
    if arguments.case is not None:
        findings = Findings()
        print(draw(arguments.case))
        check_case(draw(arguments.case), findings)
        # a case that is compiled has the same number
        CompiledCases().check(arguments.case, findings)
        print("\n".join(findings.problems))
    else:
        findings = run(seed=arguments.seed, first=arguments.first, minutes=arguments.minutes)
        save("fuzz", report(findings, arguments.seed))
    print("\n".join(f"{count:9,} {name}" for name, count in findings.counts.items()))
    return int(any(findings.counts[name] for name in PROBLEMS))


if __name__ == "__main__":
    raise SystemExit(main())
