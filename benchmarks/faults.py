"""Faults: kill -9 at random moments of a training, and corrupted copies of its folder.

    python -m benchmarks.faults --kills 150 --corruptions 250 --seed 0

After every kill each file in the folder must be readable. At the end weights, optimizer, random generators, selected
weights, config, tokenizer and metrics must be those of the uninterrupted training, bit for bit. In every second round
the folder holds a complete older run, which the killed training overwrites.

A corrupted folder must be refused with a sentence, or give the same answer, the same resumed training and the same
evaluation (corruptions.py). The counts are written to results/faults.json; the exit code is 1 if a defect was found.
"""

import argparse
import json
import os
import random
import shutil
import sys
import tempfile
from collections import Counter
from dataclasses import replace
from functools import partial
from pathlib import Path
from typing import Any

# one thread in every process: a fork keeps no other, and the numbers do not depend on the machine
os.environ["OMP_NUM_THREADS"] = "1"

import torch
from rich.console import Console

from benchmarks import corruptions
from benchmarks.harness import Report, command, machine, save
from regard._utils import load_json, override, read_lines
from regard.checkpoint import RunFolder, load_signed_json, load_tensors, repair
from regard.recipes import make_run
from regard.tasks import fit
from tests.training.killing import attempt

STEPS = 60
MORE_STEPS = 66
KILLS_PER_ROUND = 10
LONGEST = 2.5
"""Seconds after which a training is killed at the latest; a training of all steps takes about as long."""
SETTINGS = (
    "data.content.alphabet=abcd",
    "data.content.max_length=5",
    "data.count=64",
    "data.held_out=8",
    "model.embedding_size=8",
    "model.hidden_size=8",
    "model.alignment_size=8",
    "model.maxout_size=8",
    "model.dropout=0.2",
    "tokenizer.joint=false",
    f"training.steps={STEPS}",
    f"training.schedule.decay_steps={STEPS}",
    "training.every.log=2",
    "training.every.save=3",
    "training.every.validate=10",
    "training.selection.average_last=3",
    "training.selection.ema=0.9",
    "training.compute.device=cpu",
)


def make(**changes: Any) -> Any:
    """The run that is killed; `changes` are those of an older run."""
    return override(make_run("copy", "bahdanau"), *SETTINGS, *(f"{name}={value}" for name, value in changes.items()))


def train(run: Any, folder: Path, *, overwrite: bool = False) -> None:
    """Begin or continue the training in a folder, as the command line does."""
    torch.set_num_threads(1)
    repair(RunFolder(folder))
    config = RunFolder(folder).config
    # a folder that is overwritten holds the older run until the new one has saved
    is_older = overwrite and config.exists() and load_json(config)["training"]["seed"] != run.training.seed
    resume = config.exists() and not is_older
    fit(run, folder, resume=resume, overwrite=is_older, console=Console(quiet=True))


def unreadable(folder: Path) -> list[str]:
    """The files in a folder that are not complete; scratch of a killed writer has no name of its own yet."""
    problems = []
    for path in folder.rglob("*"):
        if not path.is_file() or any(part.endswith(".part") for part in path.parts):
            continue
        try:
            if path.suffix == ".safetensors":
                load_tensors(path)
            elif path.suffix == ".jsonl":
                read_lines(path)
            elif path.suffix == ".json":
                load_signed_json(path)
        except (ValueError, OSError) as error:
            problems.append(f"{path}: {error}")
    return problems


def final_state(folder: Path) -> dict[str, Any]:
    """Everything in a folder that does not depend on the time: files byte by byte, and the numbers of the others."""
    state: dict[str, Any] = {
        str(path.relative_to(folder)): path.read_bytes()
        for path in folder.rglob("*")
        if path.suffix == ".safetensors" or path.name in ("config.json", "tokenizer.json", "tokenizer.target.json")
    }
    checkpoint = RunFolder(folder).checkpoints.latest()
    assert checkpoint is not None, "a training that is complete has a checkpoint"
    state["state.json"] = load_json(checkpoint.folder / "state.json")
    for timed in ("progress", "sha256"):
        state["state.json"].pop(timed) if timed == "sha256" else state["state.json"][timed].pop("seconds")
    state["metrics"] = [
        {name: value for name, value in record.items() if name not in ("seconds", "tokens_per_second")}
        for record in read_lines(RunFolder(folder).metrics)
    ]
    return state


def kill(root: Path, *, kills: int, seed: int) -> tuple[Counter[str], list[dict[str, str]]]:
    """Rounds of a training that is killed up to KILLS_PER_ROUND times and then completed."""
    chance, run, older = random.Random(seed), make(), make(**{"training.seed": 1, "training.steps": 6})
    assert attempt(lambda: train(run, root / "whole"))
    assert attempt(lambda: train(older, root / "older"))
    whole = final_state(root / "whole")
    counts: Counter[str] = Counter()
    defects: list[dict[str, str]] = []
    while counts["kills"] < kills:
        counts["rounds"] += 1
        folder, overwrite = root / "killed", counts["rounds"] % 2 == 0
        if overwrite:
            shutil.copytree(root / "older", folder)
        for _ in range(min(KILLS_PER_ROUND, kills - counts["kills"])):
            is_done = attempt(partial(train, run, folder, overwrite=overwrite), seconds=chance.uniform(0.0, LONGEST))
            counts["kills"] += not is_done
            counts["done before the kill"] += is_done
            counts["overwrites killed"] += (folder / ".old-run").exists()
            problems = unreadable(folder)
            counts["unreadable files"] += len(problems)
            defects += [{"fault": "kill", "detail": problem} for problem in problems]
            if is_done:
                break
        assert attempt(partial(train, run, folder, overwrite=overwrite))
        state = final_state(folder)
        differing = [name for name in {**whole, **state} if whole.get(name) != state.get(name)]
        counts["differing files"] += len(differing)
        defects += [{"fault": "kill", "detail": f"{name} differs at the end"} for name in differing]
        leftovers = [path for path in folder.rglob("*") if path.name.endswith(".part") or path.name == ".old-run"]
        defects += [{"fault": "kill", "detail": f"{path} is left"} for path in leftovers]
        shutil.rmtree(folder)
    return counts, defects


def prepare(folder: Path) -> Path:
    """A folder with a checkpoint after the best step, averaged weights, and an evaluation."""
    assert attempt(lambda: train(make(), folder))
    assert attempt(lambda: corruptions.evaluate(folder))
    assert RunFolder(folder).checkpoints.latest() is not None
    return folder


ACTIONS = {
    "load and answer": corruptions.answer,
    "train --resume": partial(corruptions.resume, steps=MORE_STEPS),
    "evaluate": corruptions.evaluate,
}


def main(arguments: list[str]) -> int:
    """Run the faults, print and record the counts."""
    parser = argparse.ArgumentParser(prog="python -m benchmarks.faults")
    for name, number in (("kills", 150), ("corruptions", 250), ("seed", 0)):
        parser.add_argument(f"--{name}", type=int, default=number)
    options = parser.parse_args(arguments)
    torch.set_num_threads(1)
    # processes are forked: everything is imported and nothing has run in a thread
    with tempfile.TemporaryDirectory() as name:
        root = Path(name)
        kills, kill_defects = kill(root, kills=options.kills, seed=options.seed)
        outcomes, defects = {}, []
        if options.corruptions:
            source = prepare(root / "source")
            outcomes, defects = corruptions.corrupt(
                source, root, count=options.corruptions, seed=options.seed, actions=ACTIONS
            )
    defects = kill_defects + defects
    notes = {
        "seed": options.seed,
        "kills": dict(kills),
        "corruptions": {action: dict(counts) for action, counts in outcomes.items()},
        "defects": defects,
    }
    print(json.dumps(notes, indent=2))
    question = "What do kill -9 and damaged files leave?"
    save("faults", replace(Report(question, machine(), command(), {}, "", {}), notes=notes))
    return 1 if defects else 0


if __name__ == "__main__":
    sys.exit(main(sys.argv[1:]))
