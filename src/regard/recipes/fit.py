"""From a run to a folder that holds a trained model.

read -> tokenize -> build -> train -> card
"""

import os
from collections.abc import Callable, Sequence
from contextlib import nullcontext
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import torch
from rich.console import Console

from regard.contracts import make_folder
from regard.data import Tokenizers, make_examples
from regard.models import MODELS
from regard.recipes.aside import check_is_run, set_aside
from regard.recipes.folder import build, load, read_run, read_tokenizers, save_start
from regard.recipes.measure import ExampleData, Validation
from regard.recipes.run import Run, differences, fit_to
from regard.recipes.translator import LONGEST_SOURCE, Translator
from regard.recipes.typed import to_plain
from regard.storage import Checkpoint, write_text
from regard.training import Result, is_main_process, model_card, train


@dataclass(frozen=True, kw_only=True)
class Fitted:
    """A trained model, how its training went, and a source that it has not learned from."""

    translator: Translator
    result: Result
    example: str


def fit(
    run: Run,
    out: str | Path,
    *,
    resume: bool = False,
    overwrite: bool = False,
    console: Console | None = None,
    listeners: Sequence[Callable[[dict[str, Any]], None]] = (),
) -> Fitted:
    """Train a run into a folder. What is there already is kept, unless it is resumed or to be written over."""
    checkpoint, console = Checkpoint(Path(out)), console or Console(stderr=True)
    check_packed(run)
    going_on = check_out(checkpoint, resume=resume, overwrite=overwrite)
    training, validation = run.data.read("train"), run.data.read("validation")
    for split, report in (("train", training.report), ("validation", validation.report)):
        say(console, split, report)
    if going_on:
        tokenizers = read_tokenizers(checkpoint, run)
    else:
        tokenizers = Tokenizers.train(training, run.tokenizer, joint=run.tokenizer.joint)
    run = fit_to(run, tokenizers)
    if going_on:
        check_same(checkpoint, run)
    examples = make_examples(training, tokenizers, run.batch.max_length)
    held_out = make_examples(validation, tokenizers, LONGEST_SOURCE - 1)
    say(console, "train", examples.report)
    say(console, "validation", held_out.report)
    torch.manual_seed(run.training.seed)
    model = build(run)
    translator = Translator(model=model, tokenizers=tokenizers, config=run)
    with set_aside(checkpoint) if overwrite else nullcontext():
        if is_main_process():
            make_folder(checkpoint.folder)
            save_start(checkpoint, run, tokenizers)
        result = train(
            model,
            ExampleData(examples, run.batch),
            run.training,
            checkpoint.folder,
            validate=Validation(translator=translator, pairs=validation, examples=held_out),
            resume=going_on,
            console=console,
            listeners=listeners,
        )
    if is_main_process():
        write_text(checkpoint.card, card_of(run, result, count_parameters(model)))
    loaded = load(checkpoint.folder, device=run.training.compute.device)
    return Fitted(translator=loaded, result=result, example=validation[0].source)


def check_out(checkpoint: Checkpoint, *, resume: bool, overwrite: bool) -> bool:
    """Whether a run goes on in the folder; one that is in use is refused unless that was allowed."""
    folder = checkpoint.folder
    if resume and overwrite:
        raise ValueError("a run is resumed or written over, not both. Leave out --resume or --overwrite.")
    if folder.exists() and not folder.is_dir():
        raise ValueError(f"{folder} is a file, and a folder is needed. Choose another name.")
    if overwrite and os.environ.get("WORLD_SIZE", "1") != "1":
        raise ValueError("several processes cannot write over a folder together. Remove it first, or choose another.")
    if resume:
        if checkpoint.config.exists():
            return True
        if not folder.exists():
            raise FileNotFoundError(f"there is no {folder} to resume. Leave out --resume to begin.")
    if overwrite and folder.is_dir():
        check_is_run(checkpoint)
    in_use = folder.is_dir() and any(folder.iterdir())
    if in_use and is_main_process() and not overwrite:
        raise ValueError(
            f"{folder} is not empty. Choose another --out, go on with the run in it (--resume), or allow to write over "
            f"it (--overwrite)."
        )
    return False


def check_packed(run: Run) -> None:
    """Packed batches are for systems that read them."""
    if run.batch.packed and not MODELS[run.model_name].packs:
        raise ValueError(
            f"{run.model_name} reads padded batches only. Leave out batch.packed=true, or train a "
            f"{' or '.join(name for name, entry in MODELS.items() if entry.packs)}."
        )


def check_same(checkpoint: Checkpoint, run: Run) -> None:
    """Refuse to go on with other settings."""
    found = differences(read_run(checkpoint), run)
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


def card_of(run: Run, result: Result, parameters: int) -> str:
    """The folder's README."""
    plain = to_plain(run)
    source, target = run.data.languages
    languages = f", {source} to {target}" if source and target else ""
    return model_card(
        title=f"{run.model_name} on {run.recipe}{languages}",
        summary=f"Trained with regard. Use it: `regard translate {result.folder}`.",
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
