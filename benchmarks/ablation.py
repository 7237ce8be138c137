"""What does every parallel implementation gain over our own readable path, in the same setting?

    python -m benchmarks ablation --device cpu --threads 2
    python -m benchmarks ablation --device cuda

Both sides take turns within one run, with the batches and sizes of the recipes, and give equal numbers; how is in
sides.py, what in ablation_training.py, ablation_decoding.py and ablation_kernels.py. A result says for every side how
many times as fast it is as the first, turn by turn, and how many source lines the fast path costs. A case that fails
leaves its error and does not stop the others; results are written after every case.
"""

import argparse
import json
import os
import subprocess
import time
import traceback
from collections.abc import Sequence
from dataclasses import asdict
from pathlib import Path

import torch

from benchmarks import ablation_decoding, ablation_kernels, ablation_training
from benchmarks.harness import RESULTS, Report
from benchmarks.peers import versions
from benchmarks.sides import Case, failed, fought, free_device

SECONDS = {"cpu": 440.0, "cuda": 270.0}
QUICK_SECONDS = 1.0


def run(arguments: Sequence[str] = ()) -> list[Report]:
    """Every case of one device."""
    options = parsed(arguments)
    if options.threads is not None:
        torch.set_num_threads(options.threads)
    cases = [
        case
        for part in (ablation_training, ablation_decoding, ablation_kernels)
        for case in part.cases(options.device)
        if not options.only or any(part in f"{case.group}: {case.name}" for part in options.only)
    ]
    out = options.out or RESULTS / ("ablation.json" if options.device == "cpu" else "ablation_cuda.json")
    end = time.perf_counter() + options.seconds
    reports: list[Report] = []
    for number, case in enumerate(cases):
        left, shares = end - time.perf_counter(), sum(later.share for later in cases[number:])
        reports.append(measured(case, left * case.share / shares, quick=options.quick))
        write(out, reports, options.commit or commit())
        free_device()
    return reports


def parsed(arguments: Sequence[str]) -> argparse.Namespace:
    """The options."""
    parser = argparse.ArgumentParser(prog="python -m benchmarks ablation")
    parser.add_argument("--device", choices=("cpu", "cuda"), default="cuda" if torch.cuda.is_available() else "cpu")
    parser.add_argument("--threads", type=int, help="of torch on the CPU")
    parser.add_argument("--seconds", type=float, help="for all cases together, about")
    parser.add_argument("--only", nargs="*", help="cases whose `group: name` has one of these in it")
    parser.add_argument("--quick", action="store_true", help="two turns each: whether it runs, not how fast")
    parser.add_argument("--out", type=Path, help="where the results are written")
    parser.add_argument("--commit", help="where there is no git to ask")
    options = parser.parse_args(arguments)
    options.seconds = options.seconds or SECONDS[options.device]
    return options


def measured(case: Case, seconds: float, *, quick: bool) -> Report:
    """The case's report, or one with the reason why there is none."""
    if seconds <= 0.0 and not quick:
        return failed(case, "no time was left.")
    start = time.perf_counter()
    try:
        report = fought(case, QUICK_SECONDS if quick else seconds, quick=quick)
    except Exception as error:
        traceback.print_exc()
        report = failed(case, f"{type(error).__name__}: {error}"[:2_000])
    print(f"  {case.group}: {case.name}: {time.perf_counter() - start:.1f} s of {seconds:.1f}", flush=True)
    return report


def write(path: Path, reports: Sequence[Report], at: str) -> None:
    """All reports so far, with the machine and the commit."""
    path.parent.mkdir(parents=True, exist_ok=True)
    about = {
        "commit": at,
        "versions": versions("torch", "triton", "numpy"),
        "load of the machine": round(os.getloadavg()[0], 2),
    }
    results = [asdict(report) | about for report in reports]
    path.write_text(json.dumps(results, indent=2) + "\n")


def commit() -> str:
    """The commit that is checked out."""
    command = ["git", "rev-parse", "HEAD"]
    process = subprocess.run(command, cwd=Path(__file__).parent, capture_output=True, text=True, check=False)
    return process.stdout.strip() or "unknown"
