"""Parallel trainings, each in a separate process, with their results in one file.

A suite is a table of runs and a function that evaluates one. Small models leave a GPU idle, so several train at once.
The records of each run (config, metrics, evaluations) are gathered into results/<suite>.json.
"""

import argparse
import json
import os
import subprocess
import sys
import time
from collections.abc import Callable, Mapping
from concurrent.futures import ThreadPoolExecutor
from dataclasses import dataclass
from itertools import product
from pathlib import Path
from statistics import median
from threading import Lock
from typing import Any

from benchmarks.harness import RESULTS, commit, machine
from regard._utils import write_text

METRICS = ("bleu", "accuracy", "perplexity")
SPLITS = ("validation", "test")


@dataclass(frozen=True)
class Training:
    """A recipe's run of one model, with its changes."""

    recipe: str
    model: str
    changes: tuple[str, ...] = ()
    arguments: tuple[tuple[str, str], ...] = ()


@dataclass(frozen=True, kw_only=True)
class Suite:
    """`judge(fitted, folder)` writes the evaluations of a trained run.

    `place(folder, training)` says what a recipe takes, its data lying somewhere in the folder.
    """

    name: str
    about: str
    table: Mapping[str, Training]
    judge: Callable[[Any, Path], None]
    place: Callable[[str, Training], dict[str, Any]] = lambda folder, training: {
        "folder": folder,
        **dict(training.arguments),
    }


def train_one(suite: Suite, name: str, arguments: argparse.Namespace) -> None:
    """Train a run in this process, and evaluate it."""
    from regard._utils import override
    from regard.recipes import make_run
    from regard.tasks import fit

    chosen = suite.table[name]
    run = make_run(chosen.recipe, chosen.model, **suite.place(arguments.data, chosen))
    seed = arguments.seed[0]
    for change in (*chosen.changes, f"training.seed={seed}", f"batch.seed={seed}", *arguments.set):
        run = override(run, change)
    folder = Path(arguments.out) / f"{name}-{seed}"
    suite.judge(fit(run, folder, overwrite=arguments.overwrite), folder)


def gather(folder: Path) -> dict[str, Any]:
    """The records of a run."""
    lines = [json.loads(line) for line in (folder / "metrics.jsonl").read_text().splitlines()]
    speeds = [line["tokens_per_second"] for line in lines if "tokens_per_second" in line]
    return {
        "config": nameless(json.loads((folder / "config.json").read_text())),
        "training": {
            "steps": lines[-1]["step"],
            "epochs": lines[-1]["epoch"] + 1,
            "seconds": lines[-1]["seconds"],
            "tokens_per_second": round(median(speeds)) if speeds else None,
        },
        "validation_curve": [
            [line["step"], main_metric(line["validation"]), line["validation"]["loss"]]
            for line in lines
            if "validation" in line
        ],
        **{
            path.stem.removeprefix("evaluation-"): json.loads(path.read_text())
            for path in sorted(folder.glob("evaluation-*.json"))
        },
    }


def nameless(config: dict[str, Any]) -> dict[str, Any]:
    """A config without the local path of its data."""
    data = {
        name: None if name == "folder" else Path(value).name if isinstance(value, str) and "/" in value else value
        for name, value in config["data"].items()
    }
    return {**config, "data": data}


def main_metric(metrics: dict[str, Any]) -> Any:
    """The main metric other than the loss."""
    return next((metrics[name] for name in METRICS if name in metrics), None)


def launch(suite: Suite, name: str, seed: int, arguments: argparse.Namespace) -> bool:
    """One run in a separate process; True if it succeeded, and its last lines are printed if not."""
    folder = Path(arguments.out)
    folder.mkdir(parents=True, exist_ok=True)
    command = [sys.executable, "-m", f"benchmarks.{suite.name}", name, "--worker", "--data", arguments.data]
    command += ["--out", arguments.out]
    command += ["--overwrite"] if arguments.overwrite else []
    command += ["--seed", str(seed), *(word for change in arguments.set for word in ("--set", change))]
    began = time.perf_counter()
    log = folder / f"{name}-{seed}.log"
    with log.open("w") as file:
        environment = os.environ | {"OMP_NUM_THREADS": "1", "TOKENIZERS_PARALLELISM": "false"}
        code = subprocess.run(command, stdout=file, stderr=file, env=environment, check=False).returncode
    print(f"{name}-{seed}: exit {code} after {time.perf_counter() - began:.0f} s", flush=True)
    if code:
        print("\n".join(log.read_text().splitlines()[-8:]), flush=True)
    return not code


def main(suite: Suite) -> None:
    """Train the requested runs, several in parallel, and save each result when it is complete."""
    arguments = read_arguments(suite)
    names = arguments.names or list(suite.table)
    if arguments.worker:
        train_one(suite, names[0], arguments)
        return
    results, lock = arguments.results or RESULTS / f"{suite.name}.json", Lock()
    if arguments.gather:
        for run in product(names, arguments.seed):
            keep(suite, run, arguments, results)
        return

    def work(run: tuple[str, int]) -> None:
        # a refused run leaves the results of an earlier one with other settings
        if launch(suite, *run, arguments):
            with lock:
                keep(suite, run, arguments, results)

    with ThreadPoolExecutor(arguments.parallel) as pool:
        list(pool.map(work, product(names, arguments.seed)))


def keep(suite: Suite, run: tuple[str, int], arguments: argparse.Namespace, results: Path) -> None:
    """Add the records of a run to the results."""
    name, seed = run
    folder = Path(arguments.out) / f"{name}-{seed}"
    changes = "".join(f" --set {change}" for change in arguments.set)
    command = f"python -m benchmarks.{suite.name} --data <folder> --seed {seed}{changes} {name}"
    runs = json.loads(results.read_text()) if results.exists() else {}
    runs[f"{name}-{seed}"] = {"command": command, "machine": machine(), "commit": commit(), **gather(folder)}
    results.parent.mkdir(parents=True, exist_ok=True)
    write_text(results, json.dumps(runs, indent=1, ensure_ascii=False) + "\n")


def read_arguments(suite: Suite) -> argparse.Namespace:
    """The command line."""
    parser = argparse.ArgumentParser(description=suite.about, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("names", nargs="*", help=f"of {', '.join(suite.table)}")
    parser.add_argument("--data", required=True)
    parser.add_argument("--out", default=f"runs/{suite.name}")
    parser.add_argument("--seed", type=int, nargs="+", default=[0])
    parser.add_argument("--set", action="append", default=[], help="an override for all of them")
    parser.add_argument("--parallel", type=int, default=8)
    parser.add_argument("--results", type=Path, default=None)
    parser.add_argument("--overwrite", action="store_true", help="write over runs of the same name")
    parser.add_argument("--gather", action="store_true", help="train nothing; keep what earlier runs in --out wrote")
    parser.add_argument("--worker", action="store_true", help=argparse.SUPPRESS)
    return parser.parse_args()
