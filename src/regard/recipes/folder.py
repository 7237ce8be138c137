"""A run's folder: what is written before training begins, and a system out of what training left."""

from collections.abc import Mapping
from dataclasses import replace
from pathlib import Path
from typing import Any, TypeVar

import torch

from regard.contracts import VERSION
from regard.recipes.config import from_config, to_config
from regard.recipes.tasks import task_of
from regard.storage import Checkpoint, write_text

Kind = TypeVar("Kind")

MOST = 10**7
"""Of anything that a model has so many of; larger ones are slips of the hand."""


def save_start(checkpoint: Checkpoint, run: Any, files: Mapping[str, str]) -> None:
    """Write what a model needs beside its weights."""
    for name, text in files.items():
        write_text(checkpoint.folder / name, text)
    # last, for a folder with a config is a run
    checkpoint.save_config(to_config(run, VERSION))


def read_run(checkpoint: Checkpoint) -> Any:
    """The run that a folder was written by."""
    if not checkpoint.folder.is_dir():
        raise FileNotFoundError(f"{checkpoint.folder} is not a folder. Name the folder that `regard train` wrote.")
    if not checkpoint.config.is_file():
        raise FileNotFoundError(
            f"{checkpoint.folder} has no config.json, so `regard train` did not write it. Name one that it wrote."
        )
    return from_config(checkpoint.load_config(), str(checkpoint.config))


def build(run: Any) -> Any:
    """The model of a run, its weights drawn from torch's generator; sizes that cannot be are sentences."""
    for name, value in vars(run.model).items():
        if name.startswith("num_") or name.endswith("_size"):
            check_count(f"model.{name}", value)
    try:
        return task_of(run).models[run.model_name].build(run.model)
    except (ArithmeticError, AssertionError, MemoryError, RuntimeError, TypeError) as error:
        # torch has no words of its own for a layer of size -16, and the system none for one that fills its memory
        raise ValueError(f"no {run.model_name} can be built of {run.model}: {error}. Check the sizes.") from error


def check_count(name: str, value: object) -> None:
    """One or more, and no more than a tensor can have."""
    if isinstance(value, int) and not 1 <= value <= MOST:
        raise ValueError(f"{name} is {value}, expected 1 or more, and {MOST:,} at most.")


def load(folder: str | Path, *, device: str = "auto", fused: bool = True) -> Any:
    """What a folder that `regard train` wrote can do: a translator, a writer or a classifier.

    `device` is auto, cpu or cuda. `fused=False` uses the model's own code only.
    """
    checkpoint = Checkpoint(Path(folder))
    run = read_run(checkpoint)
    checkpoint = Checkpoint.open(Path(folder))
    # the first weights are drawn on the CPU, unseeded, and written over: nobody's random numbers need notice
    with torch.random.fork_rng(devices=[]):
        model = build(run)
    checkpoint.load_weights(model)
    system = task_of(run).open(checkpoint, run, model.eval().to(choose_device(device)))
    return replace(system, fused=fused)


def load_as(kind: type[Kind], folder: str | Path, *, device: str = "auto", fused: bool = True) -> Kind:
    """What a folder can do, if it is of this kind; of another kind, a sentence says which command uses it."""
    found = load(folder, device=device, fused=fused)
    if isinstance(found, kind):
        return found
    raise ValueError(
        f"{folder} holds a {found.config.model_name}, which is a {type(found).__name__.lower()}, and a "
        f"{kind.__name__.lower()} is needed. Use it with `regard {task_of(found.config).use} {folder}`."
    )


def choose_device(device: str) -> torch.device:
    """The GPU where there is one, or what was asked for."""
    if device not in ("auto", "cpu", "cuda"):
        raise ValueError(f"device is {device!r}, expected auto, cpu or cuda.")
    if device == "cuda" and not torch.cuda.is_available():
        raise ValueError("device is cuda, but torch sees no CUDA device. Choose auto or cpu.")
    return torch.device("cuda" if device != "cpu" and torch.cuda.is_available() else "cpu")
