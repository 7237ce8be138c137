"""How fast does training run on one GPU with default settings, against the best that its settings allow?

The runs are those of `regard train multi30k`: model, batches, optimizer, schedule and precision of the recipe, on
29,000 pairs that have the lengths of Multi30k, without validation. Each run trains from the start through
`regard.training.train`. Its figure is the median of the target tokens a second in metrics.jsonl in its last epochs,
when nearly all shapes of batches have been captured; an eager run captures nothing and is shorter. Runs with different
`training.compute.step` take turns.

    python -m benchmarks default_training

Where there is no GPU nothing is measured; REGARD_BENCHMARK_TOY=1 runs the whole at toy size on the CPU, unsaved.
REGARD_BENCHMARK_QUICK=1 trains for fewer epochs, in a few minutes.
REGARD_BENCHMARK_COMPILED=1 adds step=compiled for the Transformer, which takes minutes.
"""

import json
import os
from dataclasses import asdict, dataclass, replace
from io import StringIO
from pathlib import Path
from statistics import median
from tempfile import TemporaryDirectory
from typing import Any

import numpy as np
import torch
from rich.console import Console

from benchmarks.allocators import turns
from benchmarks.harness import RESULTS, command, commit, machine
from benchmarks.translation_pairs import SEED, invented_rows
from regard._utils import read_lines
from regard.data.batching import ExampleData, Examples
from regard.data.batching.collate import Ragged
from regard.models.translation import TRANSLATION_MODELS
from regard.recipes import make_run
from regard.tasks.build import build
from regard.training import train

SYSTEMS = ("transformer", "bahdanau")
DEFAULT, EAGER = "auto", "eager"


@dataclass(frozen=True, kw_only=True)
class Size:
    """How much is trained, and how many epochs at the end are measured."""

    num_pairs: int
    vocab_size: int
    epochs: int
    eager_epochs: int
    measured_epochs: int
    num_turns: int
    changes: dict[str, Any]


GPU = Size(num_pairs=29_000, vocab_size=10_000, epochs=10, eager_epochs=4, measured_epochs=3, num_turns=2, changes={})
QUICK = replace(GPU, epochs=6, eager_epochs=2, measured_epochs=1, num_turns=1)
"""Some of the shapes of batches are still being captured in the last epoch, so rates are below those of GPU."""
TOY = Size(
    num_pairs=300,
    vocab_size=50,
    epochs=2,
    eager_epochs=2,
    measured_epochs=1,
    num_turns=1,
    changes={"hidden_size": 16},
)


def make_setting(model: str, step: str, size: Size) -> Any:
    """The recipe's run with this `step`; DEFAULT leaves that of the recipe."""
    run: Any = make_run("multi30k", model)
    sizes = {"source_vocab_size": size.vocab_size, "target_vocab_size": size.vocab_size, **size.changes}
    training = replace(run.training, epochs=size.eager_epochs if step == EAGER else size.epochs)
    if step != DEFAULT:
        training = replace(training, compute=replace(training.compute, step=step))
    return replace(run, model=replace(run.model, **sizes), training=training)


def measure(model: str, step: str, size: Size) -> tuple[float, list[str]]:
    """Tokens a second at the end of a run, and the lines of training about the mode of its steps."""
    run, output = make_setting(model, step, size), StringIO()
    rows = invented_rows(size.num_pairs, size.vocab_size)
    sources, targets = (Ragged.of([row[side] for row in rows]) for side in (0, 1))
    data = ExampleData(Examples(sources, targets, np.arange(len(rows))), run.batch)
    torch.manual_seed(SEED)
    with TemporaryDirectory() as folder:
        result = train(
            build(run),
            data,
            run.training,
            Path(folder) / "run",
            capturable=TRANSLATION_MODELS[model].capturable,
            console=Console(file=output, width=400),
        )
        lines = read_lines(result.folder / "metrics.jsonl")
    first = run.training.epochs - size.measured_epochs
    rates = [line["tokens_per_second"] for line in lines if line["epoch"] >= first]
    return median(rates), [line for line in output.getvalue().splitlines() if line.startswith("Training steps")]


def compare_steps(model: str, size: Size) -> dict[str, Any]:
    """The default against each setting by name."""
    names = [DEFAULT, EAGER] if size is TOY else [DEFAULT, "graphed", EAGER]
    if model == "transformer" and os.environ.get("REGARD_BENCHMARK_COMPILED") == "1":
        names.append("compiled")
    rates: dict[str, list[int]] = {name: [] for name in names}
    reports: dict[str, list[str]] = {}
    for number in range(size.num_turns):
        # rotate the order, so that no candidate always follows the same one
        first = number % len(names)
        for name in names[first:] + names[:first]:
            rate, reports[name] = measure(model, name, size)
            rates[name].append(round(rate))
            print(f"{model}, step={name}: {rate:,.0f} tokens/s  {' '.join(reports[name])}", flush=True)
    medians = {name: round(median(of_turns)) for name, of_turns in rates.items()}
    # steps are not compiled by default
    best = max((name for name in names if name != "compiled"), key=medians.__getitem__)
    result = {
        "question": f"target tokens a second of `regard train multi30k --model {model}`",
        "machine": machine(),
        "commit": commit(),
        "command": command(),
        "tokens a second": medians,
        "of each turn": rates,
        "best without compiling": best,
        "default / best": round(medians[DEFAULT] / medians[best], 3),
        "default / eager": round(medians[DEFAULT] / medians[EAGER], 2),
        "default step": reports[DEFAULT],
        "size": asdict(size),
    }
    print(json.dumps({name: result[name] for name in ("tokens a second", "default / best", "default / eager")}))
    return result


def run() -> list[dict[str, Any]]:
    """Both systems where there is a GPU; the toy on request."""
    if os.environ.get("REGARD_BENCHMARK_TOY") == "1":
        return [compare_steps(model, TOY) for model in SYSTEMS]
    if not torch.cuda.is_available():
        return []
    usual = QUICK if os.environ.get("REGARD_BENCHMARK_QUICK") == "1" else GPU
    size = replace(usual, num_turns=turns(usual.num_turns))
    results = []
    for model in SYSTEMS:
        results.append(compare_steps(model, size))
        # after every model, so that a run that is stopped leaves what it has measured
        (RESULTS / "default_training.json").write_text(json.dumps(results, indent=2) + "\n")
    return results


if __name__ == "__main__":
    run()
