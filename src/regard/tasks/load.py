"""A run as config.json and back, and a predictor from a run's folder.

    config.json = {"regard": version, "task": .., "corpus": .., "recipe": .., "model_name": .., "model": {..}, ..}

Task and corpus are names of their tables, or references (`file.py:name`, `module:name`). The recipe is a label. Configs
of 0.1 name the recipe only, which determines the task and the corpus.
"""

import warnings
from collections.abc import Mapping
from dataclasses import is_dataclass, replace
from pathlib import Path
from shlex import quote
from typing import Any, Literal, get_type_hints, overload

import torch

from regard._utils import VERSION, from_plain, nearest, to_plain, write_text
from regard.checkpoint import RunFolder, repair
from regard.contracts import Predictor
from regard.data.corpora import corpus_name, find_corpus
from regard.data.text import fingerprint
from regard.tasks.build import build_for
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


ADDED = ("regard", "task", "corpus", "files", "data_sha256", "sha256")
"""Entries of config.json that are no settings: those of `to_config`, and checksums of the files and the data."""


def to_config(run: Any, version: str) -> dict[str, Any]:
    """The content of config.json."""
    return {"regard": version, "task": task_name(run), "corpus": corpus_name(type(run.data)), **to_plain(run)}


def from_config(config: Mapping[str, Any], where: str) -> Any:
    """The run that a config.json describes."""
    if "regard" not in config or "model_name" not in config:
        raise ValueError(f"{where} was not written by regard. Name a folder that `regard train` wrote.")
    # the other entries are fields of the run
    settings = {name: value for name, value in config.items() if name not in ADDED}
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
    # a file that was written before a field existed has the meaning of that time
    for name, hint in hints.items():
        if isinstance(settings[name], dict):
            settings[name] = {**getattr(hint, "FORMER_VALUES", {}), **settings[name]}
    try:
        values = {name: from_plain(hint, settings[name], f"{where}: {name}") for name, hint in hints.items()}
        return task.run_type(**values)
    except ValueError as error:
        # a setting that is checked by its own class
        raise ValueError(str(error) if where in str(error) else f"{where}: {error}") from None


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


DEVICES = ("cpu", "cuda", "mps")


def save_start(
    checkpoint: RunFolder, run: Any, files: Mapping[str, str], fingerprints: Mapping[str, str], *, resume: bool
) -> None:
    """Write config.json and the files that a model needs beside its weights."""
    for name, text in files.items():
        # the files of a resumed run were read from its folder, and the config there has their checksums
        if not (resume and (checkpoint.folder / name).exists()):
            write_text(checkpoint.folder / name, text)
    # written last, because a folder with a config counts as a run
    checkpoint.save_config({**to_config(run, VERSION), "data_sha256": dict(fingerprints)}, files)


def saved_fingerprints(checkpoint: RunFolder) -> dict[str, Any]:
    """The SHA-256 of the splits that the run in a folder was trained with, by name; none for runs of 0.1."""
    fingerprints = checkpoint.load_config().get("data_sha256", {})
    if not isinstance(fingerprints, dict):
        raise ValueError(f"{checkpoint.config}: data_sha256 is no object. Restore it from a copy, or remove it.")
    return fingerprints


def data_warning(folder: str | Path, split: str, examples: Any) -> str | None:
    """A sentence if the examples of a split are not those of the training; None if they are, or if it is unknown."""
    saved = saved_fingerprints(RunFolder(Path(folder)))
    # files of the user are in no fingerprint
    if split not in saved or saved[split] == fingerprint(examples):
        return None
    return (
        f"the {split} data have changed since the training: their SHA-256 is not the recorded one. Examples that the "
        f"model was trained with may be among them."
    )


def repair_folder(folder: str | Path) -> None:
    """Repair a folder whose process was killed while it replaced a run; a warning says what was done."""
    if sentence := repair(RunFolder(Path(folder))):
        warnings.warn(sentence, stacklevel=3)


def read_run(checkpoint: RunFolder) -> Any:
    """The run of a folder that `regard train` wrote."""
    if not checkpoint.folder.is_dir():
        raise FileNotFoundError(f"{checkpoint.folder} is not a folder. Name the folder that `regard train` wrote.")
    if not checkpoint.config.is_file():
        raise FileNotFoundError(
            f"{checkpoint.folder} has no config.json, so `regard train` did not write it. Name one that it wrote."
        )
    return from_config(checkpoint.load_config(), str(checkpoint.config))


def load(
    folder: str | Path, *, device: str | torch.device = "auto", fused: bool = True, verify: bool = True
) -> Predictor:
    """The predictor of a folder that `regard train` wrote.

    `device` is "auto" (the GPU if there is one), "cpu", "cuda", "cuda:1", "mps" or a torch.device. `fused=False`
    disables fused implementations. `verify=False` skips the comparison of the files with their SHA-256.
    """
    repair_folder(folder)
    checkpoint = RunFolder(Path(folder))
    run = read_run(checkpoint)
    checkpoint = RunFolder.open(Path(folder))
    # the initial weights are overwritten; fork_rng keeps the caller's random state unchanged
    with torch.random.fork_rng(devices=[]):
        model = build_for(run, checkpoint)
    checkpoint.load_weights(model, verify=verify)
    # evaluation mode, without dropout
    predictor = task_of(run).open(run, model.eval().to(choose_device(device)), checkpoint)
    # after the files were read, whose own errors are more specific
    if verify:
        checkpoint.verify()
    if not fused and is_dataclass(predictor) and hasattr(predictor, "fused"):
        # predictors of other packages need not have the field
        predictor = replace(predictor, fused=False)
    return predictor


@overload
def load_as(
    verb: Literal["translate"],
    folder: str | Path,
    *,
    device: str | torch.device = "auto",
    fused: bool = True,
    verify: bool = True,
) -> Translator: ...


@overload
def load_as(
    verb: Literal["generate"],
    folder: str | Path,
    *,
    device: str | torch.device = "auto",
    fused: bool = True,
    verify: bool = True,
) -> TextGenerator: ...


@overload
def load_as(
    verb: str, folder: str | Path, *, device: str | torch.device = "auto", fused: bool = True, verify: bool = True
) -> Predictor: ...


def load_as(
    verb: str, folder: str | Path, *, device: str | torch.device = "auto", fused: bool = True, verify: bool = True
) -> Any:
    """The predictor of a folder if its task has this verb; otherwise the error names the command that uses it."""
    predictor = load(folder, device=device, fused=fused, verify=verify)
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
