"""From a run to a folder that holds a trained model.

read -> build -> train -> card, and what reading means the task knows
"""

import os
from collections.abc import Callable, Sequence
from contextlib import nullcontext
from dataclasses import dataclass
from functools import partial
from pathlib import Path
from typing import Any

import torch
from rich.console import Console

from regard.recipes.aside import beginning, check_aside, check_is_run, set_aside
from regard.recipes.folder import build, load, read_run, save_start
from regard.recipes.prepared import Prepared
from regard.recipes.run import differences
from regard.recipes.tasks import task_of
from regard.recipes.typed import to_plain
from regard.storage import Checkpoint, append_line, cut_lines, holding, is_unused, save_tensors, write_text
from regard.training import Result, is_main_process, model_card, train


@dataclass(frozen=True, kw_only=True)
class Fitted:
    """A trained system, how its training went, and something to give it that it has not learned from.

    `unit` is what it had labels for: tokens, or sentences.
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
    console: Console | None = None,
    listeners: Sequence[Callable[[dict[str, Any]], None]] = (),
) -> Fitted:
    """Train a run into a folder. What is there already is kept, unless it is resumed or to be written over."""
    checkpoint, shown = Checkpoint(Path(out)), console or Console(stderr=True)
    going_on = check_out(checkpoint, resume=resume, overwrite=overwrite)
    with holding(checkpoint.folder) if is_main_process() else nullcontext():
        if going_on:
            check_kind(checkpoint, run)
        prepared = task_of(run).prepare(run, checkpoint, going_on=going_on, say=partial(say, shown))
        if prepared.counted is not None and several_processes():
            raise ValueError(f"{run.model_name} is counted, which one process does. Start it without a launcher.")
        if going_on:
            check_same(checkpoint, prepared.run)
        with set_aside(checkpoint) if overwrite else beginning(checkpoint, going_on=going_on):
            return learn(prepared, checkpoint, going_on=going_on, console=shown, listeners=listeners)


def learn(
    prepared: Prepared,
    checkpoint: Checkpoint,
    *,
    going_on: bool,
    console: Console,
    listeners: Sequence[Callable[[dict[str, Any]], None]],
) -> Fitted:
    """Train what was prepared, or keep what was counted."""
    run = prepared.run
    torch.manual_seed(run.training.seed)
    model = build(run) if prepared.counted is None else prepared.counted
    if is_main_process():
        save_start(checkpoint, run, prepared.files)
    if prepared.counted is None:
        result = train(
            model,
            prepared.data,
            run.training,
            checkpoint.folder,
            validate=prepared.validate,
            objective=prepared.objective,
            resume=going_on,
            unit=prepared.unit,
            capturable=task_of(run).models[run.model_name].capturable,
            console=console,
            listeners=listeners,
        )
    else:
        result = keep_counted(model, prepared, checkpoint)
    if is_main_process():
        write_text(checkpoint.card, card_of(run, result, count_parameters(model)))
    loaded = load(checkpoint.folder, device=run.training.compute.device)
    return Fitted(system=loaded, result=result, example=prepared.example, unit=prepared.unit)


def keep_counted(model: Any, prepared: Prepared, checkpoint: Checkpoint) -> Result:
    """What training would have left, of a model that was counted."""
    metrics, seconds = dict(prepared.validate(model)), prepared.seconds
    if is_main_process():
        save_tensors(checkpoint.weights, model.state_dict(), facts={"step": 1})
        # counted again on --resume, and told once
        cut_lines(checkpoint.metrics, 0)
        append_line(checkpoint.metrics, {"step": 1, "epoch": 0, "seconds": seconds, "validation": metrics})
    return Result(
        folder=checkpoint.folder,
        steps=1,
        epochs=1,
        tokens=sum(map(prepared.data.num_tokens, prepared.data.order.epoch(0))),
        seconds=seconds,
        stopped="epochs",
        chosen="last",
        chosen_step=1,
        metrics=metrics,
    )


def check_out(checkpoint: Checkpoint, *, resume: bool, overwrite: bool) -> bool:
    """Whether a run goes on in the folder; one that is in use is refused unless that was allowed."""
    folder = checkpoint.folder
    if resume and overwrite:
        raise ValueError("a run is resumed or written over, not both. Leave out --resume or --overwrite.")
    if folder.exists() and not folder.is_dir():
        raise ValueError(f"{folder} is a file, and a folder is needed. Choose another name.")
    if overwrite and several_processes():
        raise ValueError("several processes cannot write over a folder together. Remove it first, or choose another.")
    if resume:
        if checkpoint.config.exists():
            return True
        if not folder.exists():
            raise FileNotFoundError(f"there is no {folder} to resume. Leave out --resume to begin.")
        if is_main_process() and not is_unused(folder):
            check_aside(checkpoint)
            raise ValueError(f"{folder} holds no run to go on with. Leave out --resume, and choose another --out.")
    if overwrite and folder.is_dir():
        check_is_run(checkpoint)
    in_use = folder.is_dir() and not is_unused(folder)
    if in_use and is_main_process() and not overwrite:
        if not checkpoint.config.exists():
            check_aside(checkpoint)
        raise ValueError(
            f"{folder} is not empty. Choose another --out, go on with the run in it (--resume), or allow to write over "
            f"it (--overwrite)."
        )
    return False


def several_processes() -> bool:
    """Whether a launcher started more than this one."""
    return os.environ.get("WORLD_SIZE", "1") != "1"


def check_kind(checkpoint: Checkpoint, run: Any) -> None:
    """Refuse to go on by another recipe or with another model, whose files are others too."""
    begun = read_run(checkpoint)
    refuse(checkpoint, [one for one in differences(begun, run) if one.startswith(("recipe:", "model_name:"))])


def check_same(checkpoint: Checkpoint, run: Any) -> None:
    """Refuse to go on with other settings."""
    refuse(checkpoint, differences(read_run(checkpoint), run))


def refuse(checkpoint: Checkpoint, found: list[str]) -> None:
    """Say what differs, if anything does."""
    if found:
        raise ValueError(
            f"{checkpoint.folder} was begun with other settings: {'; '.join(found)}. Resume with the same, or choose "
            f"another --out."
        )


def say(console: Console, split: str, report: str) -> None:
    """What was left out, if anything was."""
    if report and is_main_process():
        console.print(f"{split}: {report}", highlight=False, markup=False, soft_wrap=True)


def count_parameters(model: Any) -> int:
    """Numbers that were learned; tied ones count once."""
    return sum(parameter.numel() for parameter in model.parameters())


def card_of(run: Any, result: Result, parameters: int) -> str:
    """The folder's README."""
    plain = to_plain(run)
    source, target = getattr(run.data, "languages", ("", ""))
    languages = f", {source} to {target}" if source and target else ""
    return model_card(
        title=f"{run.model_name} on {run.recipe}{languages}",
        summary=f"Trained with regard. Use it: `regard {task_of(run).use} {result.folder}`.",
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
            "Settings": {name: plain[name] for name in ("model", "data", "tokenizer", "batch", "training")},
        },
    )
