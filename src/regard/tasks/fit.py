"""Train a run into a folder: setup (by the task) -> build -> train -> model card.

The model card is the folder's README.md: the system, its data, its settings and its validation metrics.
"""

import os
from collections.abc import Callable, Mapping, Sequence
from contextlib import nullcontext
from dataclasses import dataclass
from functools import partial
from pathlib import Path
from typing import Any

import torch
from rich.console import Console

from regard._utils import VERSION, append_line, cut_lines, is_unused, lock_folder, write_text
from regard.checkpoint import (
    RunFolder,
    check_is_run,
    has_old_run,
    overwrite_guard,
    remove_on_failure,
    repair,
    save_tensors,
)
from regard.tasks.base import TrainingSetup, count_parameters
from regard.tasks.build import build
from regard.tasks.load import load, read_run, save_start, saved_fingerprints, to_config
from regard.tasks.table import task_of
from regard.training import Result, differences, is_main_process, train


def model_card(*, title: str, summary: str, sections: Mapping[str, Mapping[str, Any] | str]) -> str:
    """Markdown with one section per entry: a mapping becomes a table, a string is copied."""
    parts = [f"# {title}", summary]
    for name, content in sections.items():
        body = content if isinstance(content, str) else _table(content)
        if body:
            parts.append(f"## {name}\n\n{body}")
    return "\n\n".join(part.strip() for part in parts) + "\n"


def _table(facts: Mapping[str, Any]) -> str:
    rows = [f"| {_cell(name)} | {_cell(value)} |" for name, value in _flat(facts) if value is not None]
    return "\n".join(["| | |", "|---|---|", *rows]) if rows else ""


def _flat(facts: Mapping[str, Any], prefix: str = "") -> list[tuple[str, Any]]:
    flat: list[tuple[str, Any]] = []
    for name, value in facts.items():
        flat += _flat(value, f"{prefix}{name}.") if isinstance(value, Mapping) else [(f"{prefix}{name}", value)]
    return flat


def _cell(value: Any) -> str:
    # before int, of which bool is a subclass
    if isinstance(value, bool):
        return "yes" if value else "no"
    if isinstance(value, int):
        return f"{value:,}"
    text = f"{value:.4g}" if isinstance(value, float) else str(value)
    # a pipe or a line end would break the table
    return text.replace("|", "\\|").replace("\n", " ")


SETTINGS = ("model", "data", "tokenizer", "batch", "training")
"""Parts of a run that are shown in the model card."""


@dataclass(frozen=True, kw_only=True)
class TrainedModel:
    """A trained predictor, the result of its training, and a validation input.

    `unit` is what a label belongs to: tokens, or sentences.
    """

    system: Any
    result: Result
    example: str
    unit: str = "tokens"


def fit(
    run: Any,
    out: str | Path,
    *,
    resume: bool = False,
    overwrite: bool = False,
    data_changed: bool = False,
    console: Console | None = None,
    callbacks: Sequence[Callable[[dict[str, Any]], None]] = (),
) -> TrainedModel:
    """Train a run into a folder. A folder in use is an error unless `resume` or `overwrite` is set.

    A run is resumed on the data that it was trained on; `data_changed` resumes it on other data.
    """
    checkpoint, console = RunFolder(Path(out)), console or Console(stderr=True)
    if data_changed and not resume:
        raise ValueError("--data-changed (data_changed=True) needs --resume (resume=True). Add it, or leave both out.")
    repair_before(checkpoint, console)
    is_resumed = check_folder(checkpoint, resume=resume, overwrite=overwrite)
    # fails here, before training, if the task or the corpus could not be imported again by `load`
    config = to_config(run, VERSION)
    # only the main process takes the lock, because the others share its folder
    with lock_folder(checkpoint.folder) if is_main_process() else nullcontext():
        # before the setup, which reads the tokenizers of the folder
        if is_resumed:
            check_same_kind(checkpoint, config)
        setup = task_of(run).setup(run, checkpoint, resume=is_resumed, notify=partial(notify, console))
        if setup.model is not None and several_processes():
            raise ValueError(f"{run.model_name} is built by one process. Start it without a launcher.")
        # after the setup, which completes the sizes that follow from the data
        if is_resumed:
            changes = differences(saved_config(checkpoint), to_config(setup.run, VERSION))
            if data_changed:
                # counts of the data are not settings either
                derived = ("data.", "model.") if setup.model is not None else ("data.",)
                changes = [change for change in changes if not change.startswith(derived)]
            else:
                refuse_other_data(checkpoint, setup.fingerprints)
            refuse_changes(checkpoint, changes)
            # a damaged config or vocabulary would train another model
            checkpoint.verify()
        # a new folder is removed again if training fails before its first save
        undo = is_main_process() and not is_resumed
        with overwrite_guard(checkpoint) if overwrite else remove_on_failure(checkpoint, undo=undo):
            return train_setup(setup, checkpoint, resume=is_resumed, console=console, callbacks=callbacks)


def train_setup(
    setup: TrainingSetup,
    checkpoint: RunFolder,
    *,
    resume: bool,
    console: Console,
    callbacks: Sequence[Callable[[dict[str, Any]], None]],
) -> TrainedModel:
    """Train the model of a setup, or save a model that needs no training."""
    run, unit = setup.run, task_of(setup.run).unit
    # seeded here, so that initial weights do not depend on the setup
    torch.manual_seed(run.training.seed)
    model = build_to_train(setup) if setup.model is None else setup.model
    # before the weights: they cannot be loaded without a config and tokenizers
    if is_main_process():
        save_start(checkpoint, run, setup.files, setup.fingerprints, resume=resume)
    if setup.model is None:
        result = train(
            model,
            setup.data,
            run.training,
            checkpoint.folder,
            validate=setup.validate,
            objective=setup.objective,
            resume=resume,
            unit=unit,
            capturable=task_of(run).models[run.model_name].capturable,
            console=console,
            callbacks=callbacks,
        )
    else:
        result = save_untrained(model, setup, checkpoint)
    if is_main_process():
        write_text(checkpoint.card, make_card(run, result, count_parameters(model)))
    # loaded from disk, so that the returned predictor has the selected weights and the folder is verified
    loaded = load(checkpoint.folder, device=run.training.compute.device)
    return TrainedModel(system=loaded, result=result, example=setup.example, unit=unit)


def build_to_train(setup: TrainingSetup) -> Any:
    """The model of a run; its readout begins with the frequencies of the labels, if the settings say so."""
    model = build(setup.run)
    # models of other packages may have a readout of another class, which decides about its own initialisation
    set_frequencies = getattr(getattr(model, "readout", None), "set_frequencies", None)
    if setup.run.training.readout_bias == "frequencies" and setup.label_counts is not None and set_frequencies:
        set_frequencies(torch.from_numpy(setup.label_counts))
    return model


def save_untrained(model: Any, setup: TrainingSetup, checkpoint: RunFolder) -> Result:
    """Write the files that training would write, for a model that needs no training."""
    metrics, seconds = dict(setup.validate(model)), setup.seconds
    if is_main_process():
        save_tensors(checkpoint.weights, model.state_dict(), metadata={"step": 1})
        # --resume builds the model again, so its line must not be written twice
        cut_lines(checkpoint.metrics, 0)
        append_line(checkpoint.metrics, {"step": 1, "epoch": 0, "seconds": seconds, "validation": metrics})
    return Result(
        folder=checkpoint.folder,
        # counting is one pass over the data: one step and one epoch
        steps=1,
        epochs=1,
        tokens=sum(map(setup.data.num_tokens, setup.data.order.epoch(0))),
        seconds=seconds,
        stopped="epochs",
        chosen="last",
        chosen_step=1,
        metrics=metrics,
    )


def check_folder(checkpoint: RunFolder, *, resume: bool, overwrite: bool) -> bool:
    """Whether the folder holds a run to resume; a folder in use is an error unless `overwrite` is set."""
    folder = checkpoint.folder
    if resume and overwrite:
        raise ValueError("a run cannot be both resumed and overwritten. Leave out --resume or --overwrite.")
    if folder.exists() and not folder.is_dir():
        raise ValueError(f"{folder} is a file, expected a folder. Choose another name.")
    # the guard moves the old run away, which several processes cannot do together
    if overwrite and several_processes():
        raise ValueError("several processes cannot overwrite one folder. Remove it first, or choose another.")
    if resume:
        # a folder without a config was never started
        if checkpoint.config.exists():
            return True
        if not folder.exists():
            raise FileNotFoundError(f"there is no {folder} to resume. Leave out --resume to begin.")
        # other processes may find what the main process has written, so only that one checks
        if is_main_process() and not is_unused(folder):
            raise ValueError(f"{folder} holds no run to resume. Leave out --resume, and choose another --out.")
    if overwrite and folder.is_dir():
        # a folder that regard did not write is never overwritten
        check_is_run(checkpoint, is_run=read_run)
    in_use = folder.is_dir() and not is_unused(folder)
    if in_use and is_main_process() and not overwrite:
        raise ValueError(
            f"{folder} is not empty. Choose another --out, resume the run in it (--resume), or overwrite it "
            f"(--overwrite)."
        )
    return False


def several_processes() -> bool:
    """Whether a launcher started more than one process."""
    return os.environ.get("WORLD_SIZE", "1") != "1"


def saved_config(checkpoint: RunFolder) -> dict[str, Any]:
    """The config of the run in a folder, in the current format."""
    return to_config(read_run(checkpoint), VERSION)


def check_same_kind(checkpoint: RunFolder, config: Mapping[str, Any]) -> None:
    """Reject a resume with another task, corpus or model, whose files differ too."""
    saved = saved_config(checkpoint)
    kinds = ("task", "corpus", "model_name")
    refuse_changes(
        checkpoint, differences({name: saved[name] for name in kinds}, {name: config[name] for name in kinds})
    )


def refuse_changes(checkpoint: RunFolder, changes: list[str]) -> None:
    """Raise an error if the run differs from the run in the folder."""
    if changes:
        raise ValueError(
            f"{checkpoint.folder} was started with other settings: {'; '.join(changes)}. Resume with the same ones, or "
            f"choose another --out."
        )


def refuse_other_data(checkpoint: RunFolder, fingerprints: Mapping[str, str]) -> None:
    """Raise an error if a split differs from that of the run in the folder; runs of 0.1 have no fingerprints."""
    saved = saved_fingerprints(checkpoint)
    names = [name for name in fingerprints if name in saved and saved[name] != fingerprints[name]]
    if names:
        raise ValueError(
            f"the data of {checkpoint.folder} have changed: the splits {' and '.join(names)} are not those that it was "
            f"trained with (their SHA-256 differs). Restore the files, continue on the new data with --data-changed "
            f"(data_changed=True), or choose another --out."
        )


def repair_before(checkpoint: RunFolder, console: Console) -> None:
    """Repair what a killed process left in the folder."""
    # several processes cannot agree on the moment
    if several_processes():
        if has_old_run(checkpoint):
            raise ValueError(
                f"{checkpoint.folder} was being overwritten when its process was killed. Repair it with one process, "
                f"such as `regard evaluate {checkpoint.folder}`, then start several."
            )
        return
    if sentence := repair(checkpoint):
        console.print(sentence, highlight=False, markup=False, soft_wrap=True)


def notify(console: Console, split: str, sentence: str) -> None:
    """Print a sentence about a split, unless it is empty."""
    if sentence and is_main_process():
        console.print(f"{split}: {sentence}", highlight=False, markup=False, soft_wrap=True)


def make_card(run: Any, result: Result, parameters: int) -> str:
    """The model card of a trained run."""
    config, task = to_config(run, VERSION), task_of(run)
    source, target = getattr(run.data, "languages", ("", ""))
    languages = f", {source} to {target}" if source and target else ""
    return model_card(
        title=f"{run.model_name} on {run.recipe}{languages}",
        summary=f"Trained with regard. To use it, run `regard {task.verb} {result.folder}`.",
        sections={
            "Validation": result.metrics,
            "Training": {
                "parameters": parameters,
                "steps": result.steps,
                "epochs": result.epochs,
                "target tokens": result.tokens,
                "seconds": result.seconds,
                "weights": f"{result.chosen} (step {result.chosen_step})",
            },
            "Settings": {name: config[name] for name in SETTINGS if name in config},
        },
    )
