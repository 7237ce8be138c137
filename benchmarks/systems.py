"""Which system translates how well? Every system and Luong's variants, trained alike and scored alike.

    python -m benchmarks.systems --data <folder> --out runs/systems            # all of them
    python -m benchmarks.systems --data <folder> --out runs/systems bahdanau   # only some

Small models leave a GPU idle, so several train at once, each in a process of its own. What each run wrote of itself
(config, metrics, evaluation) is gathered into results/systems.json, from which benchmarks.results_page writes
docs/results.md.
"""

import argparse
import json
import os
import subprocess
import sys
import time
from concurrent.futures import ThreadPoolExecutor
from dataclasses import dataclass
from pathlib import Path
from typing import Any

from benchmarks.harness import RESULTS, machine


@dataclass(frozen=True)
class System:
    """A recipe's run of one model, with what is changed in it."""

    recipe: str
    model: str
    changes: tuple[str, ...] = ()
    arguments: tuple[tuple[str, str], ...] = ()


def luong(score: str, alignment: str) -> System:
    """One of Luong's variants."""
    return System("multi30k", "luong", (f"model.score={score}", f"model.alignment={alignment}"))


SYSTEMS = {
    "rctm": System("multi30k", "rctm"),
    "rnn_encoder_decoder": System("multi30k", "rnn_encoder_decoder"),
    "seq2seq": System("multi30k", "seq2seq"),
    "bahdanau": System("multi30k", "bahdanau"),
    "luong": luong("general", "global"),
    "lstmn": System("multi30k", "lstmn"),
    "lstmn_shallow": System("multi30k", "lstmn", ("model.fusion=shallow",)),
    "conv_seq2seq": System("multi30k", "conv_seq2seq"),
    "transformer": System("multi30k", "transformer"),
    "luong_dot": luong("dot", "global"),
    "luong_concat": luong("concat", "global"),
    "luong_location": luong("location", "global"),
    "luong_local_m": luong("general", "local_monotonic"),
    "luong_local_p": luong("general", "local_predictive"),
    "bahdanau_zh": System("tatoeba", "bahdanau"),
    "transformer_zh": System("tatoeba", "transformer"),
}


def train_one(name: str, asked: argparse.Namespace) -> None:
    """Train a system in this process, and evaluate it on validation and test."""
    from regard.recipes import evaluate, fit, make_run, override, steps_of
    from regard.storage import Checkpoint, write_text

    system = SYSTEMS[name]
    run = make_run(system.recipe, system.model, **dict(system.arguments), folder=asked.data)
    for change in (*system.changes, f"training.seed={asked.seed}", *asked.set):
        run = override(run, change)
    folder = Path(asked.out) / f"{name}-{asked.seed}"
    fitted = fit(run, folder, overwrite=asked.overwrite)
    for split in ("validation", "test"):
        report = evaluate(fitted.translator, run.data.read(split), split=split, beam=5, steps=steps_of(folder))
        write_text(Checkpoint(folder).evaluation(split), report.to_json())


def gather(folder: Path) -> dict[str, Any]:
    """What a run wrote of itself."""
    lines = [json.loads(line) for line in (folder / "metrics.jsonl").read_text().splitlines()]
    return {
        "config": json.loads((folder / "config.json").read_text()),
        "training": {"steps": lines[-1]["step"], "epochs": lines[-1]["epoch"] + 1, "seconds": lines[-1]["seconds"]},
        "validation_curve": [
            [line["step"], line["validation"].get("bleu"), line["validation"]["loss"]]
            for line in lines
            if "validation" in line
        ],
        **{
            split: json.loads((folder / f"evaluation-{split}.json").read_text())
            for split in ("validation", "test")
            if (folder / f"evaluation-{split}.json").exists()
        },
    }


def launch(name: str, asked: argparse.Namespace) -> str:
    """One system in a process of its own; its last words if it failed."""
    folder = Path(asked.out)
    folder.mkdir(parents=True, exist_ok=True)
    command = [sys.executable, "-m", "benchmarks.systems", "--worker", "--data", asked.data, "--out", asked.out]
    command += ["--overwrite"] if asked.overwrite else []
    command += ["--seed", str(asked.seed), *(word for change in asked.set for word in ("--set", change)), name]
    began = time.perf_counter()
    with (folder / f"{name}-{asked.seed}.log").open("w") as log:
        environment = os.environ | {"OMP_NUM_THREADS": "1", "TOKENIZERS_PARALLELISM": "false"}
        code = subprocess.run(command, stdout=log, stderr=log, env=environment, check=False).returncode
    done = f"{name}: exit {code} after {time.perf_counter() - began:.0f} s"
    print(done, flush=True)
    if code:
        print("\n".join((folder / f"{name}-{asked.seed}.log").read_text().splitlines()[-8:]), flush=True)
    return done


def main() -> None:
    """Train what was asked for, several at once, and gather the results."""
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("names", nargs="*", help=f"of {', '.join(SYSTEMS)}")
    parser.add_argument("--data", required=True)
    parser.add_argument("--out", default="runs/systems")
    parser.add_argument("--seed", type=int, default=0)
    parser.add_argument("--set", action="append", default=[], help="an override for all of them")
    parser.add_argument("--parallel", type=int, default=8)
    parser.add_argument("--results", type=Path, default=RESULTS / "systems.json")
    parser.add_argument("--overwrite", action="store_true", help="write over runs of the same name")
    parser.add_argument("--worker", action="store_true", help=argparse.SUPPRESS)
    asked = parser.parse_args()
    names = asked.names or list(SYSTEMS)
    if asked.worker:
        train_one(names[0], asked)
        return
    with ThreadPoolExecutor(asked.parallel) as pool:
        list(pool.map(lambda name: launch(name, asked), names))
    found = json.loads(asked.results.read_text()) if asked.results.exists() else {}
    for name in names:
        folder = Path(asked.out) / f"{name}-{asked.seed}"
        if (folder / "evaluation-test.json").exists():
            changes = "".join(f" --set {change}" for change in asked.set)
            command = f"python -m benchmarks.systems --data <folder> --seed {asked.seed}{changes} {name}"
            found[f"{name}-{asked.seed}"] = {"command": command, "machine": machine(), **gather(folder)}
    asked.results.parent.mkdir(parents=True, exist_ok=True)
    asked.results.write_text(json.dumps(found, indent=1, ensure_ascii=False) + "\n")


if __name__ == "__main__":
    main()
