"""`regard train`: a recipe and a model become a folder that translates, writes or classifies."""

import sys
from collections.abc import Callable
from dataclasses import replace
from importlib.util import find_spec
from inspect import signature
from pathlib import Path
from shlex import quote
from statistics import median
from typing import Annotated, Any

import typer
from rich import box
from rich.console import Console
from rich.table import Table
from rich.text import Text

from regard.cli.names import find_name, spoken
from regard.models import FAMILIES, MODELS, SENTENCE_MODELS
from regard.recipes import RECIPES, TASKS, Fitted, count_parameters, fit, make_run, override
from regard.recipes.files import FileCorpus
from regard.recipes.folder import read_run
from regard.storage import Checkpoint, read_lines
from regard.training import Interrupted, TensorBoard, is_main_process

INTERRUPTED = 130
LONGEST_EXAMPLE = 200
"""Characters of what is suggested to try."""
SHORT = {"valid_source": "valid", "test_source": "test"}
"""Options of files with two sides, and what those with one side call them."""


def train(
    recipe: Annotated[str | None, typer.Argument(help=f"One of {', '.join(RECIPES)}; not needed to --resume.")] = None,
    *,
    out: Annotated[Path, typer.Option(help="Folder for the model and all that belongs to it.")],
    model: Annotated[str | None, typer.Option(help="See `regard list`; the recipe's own without it.")] = None,
    pair: Annotated[str | None, typer.Option(help="Languages, such as en-de.")] = None,
    data: Annotated[
        Path | None, typer.Option(help="Folder of published sets (default: REGARD_DATA); text, sentences: your file.")
    ] = None,
    source: Annotated[Path | None, typer.Option(help="pairs: sentences, or one .tsv or .jsonl.")] = None,
    target: Annotated[Path | None, typer.Option(help="pairs: their translations.")] = None,
    valid_source: Annotated[Path | None, typer.Option(help="For validation; else held out.")] = None,
    valid_target: Annotated[Path | None, typer.Option(help="pairs: for validation.")] = None,
    test_source: Annotated[Path | None, typer.Option(help="For `regard evaluate`.")] = None,
    test_target: Annotated[Path | None, typer.Option(help="pairs: for `regard evaluate`.")] = None,
    assignments: Annotated[
        list[str] | None, typer.Option("--set", metavar="KEY=VALUE", help="Such as model.layers=6. May be repeated.")
    ] = None,
    seed: Annotated[int | None, typer.Option(help="The same seed gives the same model.")] = None,
    steps: Annotated[int | None, typer.Option(help="Train for so many steps.")] = None,
    device: Annotated[str | None, typer.Option(help="auto, cpu or cuda.")] = None,
    precision: Annotated[str | None, typer.Option(help="auto, fp32 or bf16.")] = None,
    resume: Annotated[
        bool, typer.Option("--resume", help="Go on with the run in the folder, as it began; --steps: for longer.")
    ] = False,
    overwrite: Annotated[bool, typer.Option("--overwrite", help="Write over the run in the folder.")] = False,
    tensorboard: Annotated[bool, typer.Option("--tensorboard", help="Write events for TensorBoard too.")] = False,
) -> None:
    """Train a model by a recipe; Ctrl-C saves, and --resume goes on."""
    files = {
        "source": source,
        "target": target,
        "valid_source": valid_source,
        "valid_target": valid_target,
        "test_source": test_source,
        "test_target": test_target,
    }
    given = {"pair": pair, "data": data, **files}
    quick = {
        "training.seed": seed,
        "batch.seed": seed,
        "training.steps": steps,
        "training.compute.device": device,
        "training.compute.precision": precision,
    }
    run = plan(recipe, model, given, quick, assignments or [], begun=begun_with(out) if resume else None)
    listeners = [events(out / "tensorboard")] if tensorboard else []
    try:
        fitted = fit(run, out, resume=resume, overwrite=overwrite, listeners=listeners)
    except Interrupted:
        # training has said where it stopped and how to go on
        sys.exit(INTERRUPTED)
    if is_main_process():
        report(Console(), fitted, out)


def plan(
    recipe: str | None,
    model: str | None,
    given: dict[str, Any],
    quick: dict[str, Any],
    assignments: list[str],
    *,
    begun: Any = None,
) -> Any:
    """The run that was asked for: a recipe, or what was begun, then the short options, then --set."""
    if recipe is None and begun is None:
        raise ValueError(f"no recipe is named. Name one of {', '.join(RECIPES)}.")
    named = begun.recipe if recipe is None else find_name(recipe, RECIPES, "recipe")
    chosen = None if model is None else find_model(model, named)
    if begun is not None and named == begun.recipe and chosen in (None, begun.model_name):
        # goes on as it began; files that are named again may lie elsewhere
        renamed = any(value is not None for value in given.values())
        run = replace(begun, data=make(named, begun.model_name, given, None).data) if renamed else begun
    else:
        run = make(named, chosen, given, quick["training.steps"])
    if quick["training.steps"] is not None:
        run = override(run, f"training.steps={quick['training.steps']}", "training.epochs=none")
    run = override(run, *(f"{key}={value}" for key, value in quick.items() if value is not None))
    return override(run, *assignments)


def make(recipe: str, model: str | None, given: dict[str, Any], steps: int | None) -> Any:
    """A recipe with the files and languages that were given."""
    taken = signature(RECIPES[recipe].make).parameters
    if "data" not in taken and given.get("data") is not None:
        # a published set is named by its folder
        given = {**given, "folder": str(given["data"].resolve()), "data": None}
    given = {SHORT.get(name, name) if SHORT.get(name) in taken else name: value for name, value in given.items()}
    if "steps" in taken:
        # such a recipe fits its warm-up to the number of steps
        given = {**given, "steps": steps}
    return make_run(recipe, model, **{name: value for name, value in given.items() if value is not None})


def begun_with(out: Path) -> Any:
    """The run that a folder was begun with, if it was."""
    checkpoint = Checkpoint(out)
    return read_run(checkpoint) if checkpoint.config.is_file() else None


def find_model(model: str, recipe: str) -> str:
    """The model that was meant, of those that do what the recipe is for; one that does something else is told so."""
    task = RECIPES[recipe].task
    models = TASKS[task].models
    for other, family in FAMILIES.items():
        asked = model.strip().lower().replace("-", "_")
        if asked in family and asked not in models:
            raise ValueError(
                f"{asked} is for {other}, and the recipe {recipe} is for {task}. Choose among: "
                f"{', '.join(map(spoken, models))}."
            )
    return find_name(model, models, "model")


def events(folder: Path) -> Callable[[dict[str, Any]], None]:
    """A listener that opens its folder with the first record: until then the run's folder may be refused."""
    if find_spec("tensorboard") is None:
        raise ImportError("--tensorboard needs the tensorboard package. Install it with: pip install tensorboard")
    opened: list[TensorBoard] = []

    def listen(record: dict[str, Any]) -> None:
        if not opened:
            opened.append(TensorBoard(folder))
        opened[0](record)

    return listen


def report(console: Console, fitted: Fitted, out: Path) -> None:
    """What came of it, where it is, and what to do with it."""
    result = fitted.result
    table = Table(box=box.SIMPLE_HEAD, padding=(0, 1, 0, 0), show_header=False)
    table.add_column(style="bold", no_wrap=True)
    table.add_column(overflow="fold")
    for name, value in result.metrics.items():
        table.add_row(f"validation {name.replace('_', ' ')}", f"{value:.4g}")
    table.add_row("parameters", f"{count_parameters(fitted.system.model):,}")
    table.add_row("trained", f"{result.steps:,} steps, {result.seconds:.0f} s, {speed_of(fitted):,.0f} {fitted.unit}/s")
    table.add_row("weights", f"{result.chosen}, of step {result.chosen_step:,}")
    table.add_row("folder", Text(str(out)))
    console.print(table)
    console.print("Try:", style="bold")
    for command in (f"regard evaluate {quote(str(out))}{split_of(fitted)}", use_of(fitted, out)):
        console.print(Text(f"  {command}"), soft_wrap=True)


def use_of(fitted: Fitted, out: Path) -> str:
    """The command that uses what was trained."""
    folder, example = quote(str(out)), quote(fitted.example[:LONGEST_EXAMPLE])
    run = fitted.system.config
    task = RECIPES[run.recipe].task
    if task == "language":
        return f"regard generate {folder} --prompt {example} --temperature 0.8 --stream"
    if task == "sentences":
        explained = " --explain" if SENTENCE_MODELS[run.model_name].attends else ""
        return f"regard classify {folder}{explained} -- {example}"
    linked = " --alignments" if MODELS[run.model_name].attends else ""
    return f"echo {example} | regard translate {folder} --beam 5{linked}"


def split_of(fitted: Fitted) -> str:
    """Which split to evaluate; texts and sentences are evaluated on all they have."""
    if RECIPES[fitted.system.config.recipe].task != "translation":
        return ""
    return f" --split {'test' if has_test(fitted) else 'validation'}"


def has_test(fitted: Fitted) -> bool:
    """Whether the run's data have a test; files that name a validation and no test have none."""
    data = fitted.system.config.data
    return not (isinstance(data, FileCorpus) and data.valid_source is not None and data.test_source is None)


def speed_of(fitted: Fitted) -> float:
    """Target tokens learned from in a second, while learning: the middle one of what was measured."""
    lines = read_lines(Checkpoint(fitted.result.folder).metrics)
    speeds = [line["tokens_per_second"] for line in lines if "tokens_per_second" in line]
    return median(speeds) if speeds else 0.0
