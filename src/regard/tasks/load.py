"""A run as config.json and back, and a predictor from a run's folder.

    config.json = {"regard": version, "task": .., "corpus": .., "recipe": .., "model_name": .., "model": {..}, ..}

Task and corpus are names of their tables, or references (`file.py:name`, `module:name`). The recipe is a label. Configs
of 0.1 name the recipe only, which determines the task and the corpus.
"""

from collections.abc import Mapping
from dataclasses import is_dataclass, replace
from pathlib import Path
from shlex import quote
from typing import Any, Literal, get_type_hints, overload

import torch

from regard._utils import VERSION, from_plain, nearest, to_plain, write_text
from regard.checkpoint import RunFolder
from regard.contracts import ModelEntry, Predictor
from regard.data.corpora import corpus_name, find_corpus
from regard.tasks.language_modeling.predictor import TextGenerator
from regard.tasks.table import find_task, task_name, task_of
from regard.tasks.translation.predictor import Translator
from regard.training import rename_settings

RECIPES_0_1 = {
    "multi30k": ("translation", "multi30k"),
    "tatoeba": ("translation", "tatoeba"),
    "pairs": ("translation", "parallel_files"),
    "dates": ("translation", "synthetic"),
    "reverse": ("translation", "synthetic"),
    "copy": ("translation", "synthetic"),
    "ptb": ("language_modeling", "ptb"),
    "tinyshakespeare": ("language_modeling", "tinyshakespeare"),
    "tinyshakespeare_small": ("language_modeling", "tinyshakespeare"),
    "topics": ("language_modeling", "python_topics"),
    "text": ("language_modeling", "text_files"),
    "sentences": ("text_classification", "labelled_files"),
}
"""Task and corpus of every recipe of 0.1."""


def to_config(run: Any, version: str) -> dict[str, Any]:
    """The content of config.json."""
    return {"regard": version, "task": task_name(run), "corpus": corpus_name(type(run.data)), **to_plain(run)}


def from_config(config: Mapping[str, Any], where: str) -> Any:
    """The run that a config.json describes."""
    if "regard" not in config or "model_name" not in config:
        raise ValueError(f"{where} was not written by regard. Name a folder that `regard train` wrote.")
    # what to_config added; the other entries are fields of the run
    settings = {name: value for name, value in config.items() if name not in ("regard", "task", "corpus")}
    # before the names are checked, because older configs have other names
    settings = rename_settings(settings)
    if "task" in config:
        names = config["task"], config.get("corpus")
    # configs of 0.1 have neither entry
    else:
        names = find_entry(RECIPES_0_1, settings.get("recipe"), f"{where}: recipe")
    task = import_named(find_task, names[0], f"{where}: task")
    corpus = import_named(find_corpus, names[1], f"{where}: corpus")
    # the types of data and model depend on the run, all others are those of its class
    hints = {**get_type_hints(task.run_type), "data": corpus}
    hints["model"] = find_entry(task.models, settings.get("model_name"), f"{where}: model_name").config
    # unknown before missing: a misspelt name is both, and only this error suggests the right one
    for name in settings:
        if name not in hints:
            raise ValueError(f"{where} has no {name!r}; the nearest is {nearest(name, hints)!r}.")
    for name in hints:
        if name not in settings:
            raise ValueError(f"{where} has no {name}, and needs one.")
    return task.run_type(**{name: from_plain(hint, settings[name], f"{where}: {name}") for name, hint in hints.items()})


def find_entry(table: Mapping[str, Any], name: Any, what: str) -> Any:
    """The entry of a table; the error for an unknown name suggests the nearest."""
    if not isinstance(name, str) or name not in table:
        raise ValueError(
            f"{what} is {name!r}; the nearest is {nearest(str(name), table)!r}. Known: {', '.join(table)}."
        )
    return table[name]


def import_named(find: Any, name: Any, what: str) -> Any:
    """The object of a name or a reference; errors name the entry of the config."""
    if not isinstance(name, str):
        raise ValueError(f"{what} is {name!r}, expected a name or a reference such as file.py:name.")
    try:
        return find(name)
    except ValueError as error:
        raise ValueError(
            f"{what} is {name!r}, and {error} Restore it, or write its new location into {what.partition(':')[0]}."
        ) from error


MAX_COUNT = 10**7
"""Upper bound for any size in a model config; larger values are treated as typos."""
DEVICES = ("cpu", "cuda", "mps")


def save_start(checkpoint: RunFolder, run: Any, files: Mapping[str, str]) -> None:
    """Write config.json and the files that a model needs beside its weights."""
    for name, text in files.items():
        write_text(checkpoint.folder / name, text)
    # written last, because a folder with a config counts as a run
    checkpoint.save_config(to_config(run, VERSION))


def read_run(checkpoint: RunFolder) -> Any:
    """The run of a folder that `regard train` wrote."""
    if not checkpoint.folder.is_dir():
        raise FileNotFoundError(f"{checkpoint.folder} is not a folder. Name the folder that `regard train` wrote.")
    if not checkpoint.config.is_file():
        raise FileNotFoundError(
            f"{checkpoint.folder} has no config.json, so `regard train` did not write it. Name one that it wrote."
        )
    return from_config(checkpoint.load_config(), str(checkpoint.config))


def entry_of(run: Any) -> ModelEntry:
    """The table entry of a run's model."""
    return task_of(run).models[run.model_name]


def build(run: Any) -> Any:
    """The model of a run with weights drawn from torch's generator; impossible sizes are a ValueError."""
    # before anything is allocated: a typo of a few zeros exhausts the memory
    for name, value in vars(run.model).items():
        if name.startswith("num_") or name.endswith("_size"):
            check_count(f"model.{name}", value)
    try:
        return entry_of(run).build(run.model)
    except (ArithmeticError, AssertionError, MemoryError, RuntimeError, TypeError) as error:
        # torch's own errors for a layer of size -16, or for one that exceeds memory, do not name the setting
        raise ValueError(f"{run.model_name} cannot be built from {run.model}: {error}. Check the sizes.") from error


def check_count(name: str, value: object) -> None:
    """Reject a size outside 1 .. MAX_COUNT."""
    if isinstance(value, int) and not 1 <= value <= MAX_COUNT:
        raise ValueError(f"{name} is {value}, expected 1 to {MAX_COUNT:,}.")


def load(folder: str | Path, *, device: str | torch.device = "auto", fused: bool = True) -> Predictor:
    """The predictor of a folder that `regard train` wrote.

    `device` is "auto" (the GPU if there is one), "cpu", "cuda", "cuda:1", "mps" or a torch.device. `fused=False`
    disables fused implementations.
    """
    checkpoint = RunFolder(Path(folder))
    run = read_run(checkpoint)
    checkpoint = RunFolder.open(Path(folder))
    # the initial weights are overwritten; fork_rng keeps the caller's random state unchanged
    with torch.random.fork_rng(devices=[]):
        model = build(run)
    checkpoint.load_weights(model)
    # evaluation mode, without dropout
    predictor = task_of(run).open(run, model.eval().to(choose_device(device)), checkpoint)
    if not fused and is_dataclass(predictor) and hasattr(predictor, "fused"):
        # predictors of other packages need not have the field
        predictor = replace(predictor, fused=False)
    return predictor


@overload
def load_as(
    verb: Literal["translate"], folder: str | Path, *, device: str | torch.device = "auto", fused: bool = True
) -> Translator: ...


@overload
def load_as(
    verb: Literal["generate"], folder: str | Path, *, device: str | torch.device = "auto", fused: bool = True
) -> TextGenerator: ...


@overload
def load_as(verb: str, folder: str | Path, *, device: str | torch.device = "auto", fused: bool = True) -> Predictor: ...


def load_as(verb: str, folder: str | Path, *, device: str | torch.device = "auto", fused: bool = True) -> Any:
    """The predictor of a folder if its task has this verb; otherwise the error names the command that uses it."""
    predictor = load(folder, device=device, fused=fused)
    task = task_of(predictor.run)
    if task.verb != verb:
        # the task's own example, because not every verb is a command of regard
        command = task.example_command(predictor.run, quote(str(folder)), "...")
        raise ValueError(
            f"{folder} holds a {predictor.run.model_name}, a model for {task.title.en.lower()}, which cannot {verb}. "
            f"Use it with: {command}"
        )
    return predictor


def choose_device(device: str | torch.device) -> torch.device:
    """The device of a name; "auto" is the GPU if there is one."""
    if device == "auto":
        return torch.device("cuda" if torch.cuda.is_available() else "cpu")
    try:
        # torch raises RuntimeError for an unknown kind, TypeError for another type
        target = torch.device(device)
    except (RuntimeError, TypeError):
        target = None
    if target is None or target.type not in DEVICES:
        raise ValueError(f"device is {device!r}, expected auto, cpu, cuda, mps, or an indexed device such as cuda:1.")
    # without an index one device is enough
    if target.type == "cuda" and (target.index or 0) >= torch.cuda.device_count():
        raise ValueError(f"device is {target}, but torch finds {torch.cuda.device_count()} CUDA devices. Choose auto.")
    if target.type == "mps" and not torch.backends.mps.is_available():
        raise ValueError("device is mps, but torch finds no such device. Choose auto or cpu.")
    return target
