"""`regard train`: a recipe and a model become a folder that translates, generates or classifies."""

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

from regard._utils import find_name, hyphenated, is_reference, override, read_lines
from regard.checkpoint import RunFolder
from regard.recipes import RECIPES, all_recipes, find_recipe, make_run
from regard.tasks import TrainedModel, all_tasks, count_parameters, find_task, fit, read_run, task_of
from regard.training import Interrupted, TensorBoard, is_main_process

INTERRUPTED = 130
LONGEST_EXAMPLE = 200
"""Characters of what is suggested to try."""
SHORT = {"valid_source": "valid", "test_source": "test"}
"""Options of files with two sides, and what those with one side call them."""


def train(
    recipe: Annotated[
        str | None,
        typer.Argument(help=f"One of {', '.join(RECIPES)}, or your file.py:name. Not needed to --resume."),
    ] = None,
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
    device: Annotated[str | None, typer.Option(help="auto, cpu, cuda, cuda:1 or mps.")] = None,
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
    callbacks = [events(out / "tensorboard")] if tensorboard else []
    try:
        fitted = fit(run, out, resume=resume, overwrite=overwrite, callbacks=callbacks)
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
    name = begun.recipe if recipe is None else recipe_name(recipe)
    chosen = None if model is None else find_model(model, name)
    if begun is not None and chosen in (None, begun.model_name) and label_of(name, chosen, given) == begun.recipe:
        # goes on as it began; files that are named again may lie elsewhere
        moved = any(value is not None for value in given.values())
        run = replace(begun, data=make(name, begun.model_name, given, None).data) if moved else begun
    else:
        run = make(name, chosen, given, quick["training.steps"])
    if quick["training.steps"] is not None:
        run = override(run, f"training.steps={quick['training.steps']}", "training.epochs=none")
    run = override(run, *(f"{key}={value}" for key, value in quick.items() if value is not None))
    return override(run, *assignments)


def recipe_name(recipe: str) -> str:
    """The name of a recipe as its table has it; `file.py:name` stays."""
    return recipe if is_reference(recipe) else find_name(recipe, all_recipes(), "recipe")


def label_of(name: str, model: str | None, given: dict[str, Any]) -> str:
    """The label of a recipe's runs, which is its name unless it is the user's own."""
    return str(make(name, model, given, None).recipe) if is_reference(name) else name


def make(recipe: str, model: str | None, given: dict[str, Any], steps: int | None) -> Any:
    """A recipe with the files and languages that were given."""
    taken = signature(find_recipe(recipe).make).parameters
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
    checkpoint = RunFolder(out)
    return read_run(checkpoint) if checkpoint.config.is_file() else None


def find_model(model: str, recipe: str) -> str:
    """The model of a name, of those for the recipe's task; the error for a model of another task names that."""
    own = find_recipe(recipe).task
    if not own:
        # a recipe of the user's own checks its models itself
        return model
    models = find_task(own).models
    for task in all_tasks().values():
        name = model.strip().lower().replace("-", "_")
        if name in task.models and name not in models:
            raise ValueError(
                f"{name} is for {task.title.en.lower()}, and the recipe {recipe} is for "
                f"{find_task(own).title.en.lower()}. Choose among: {', '.join(map(hyphenated, models))}."
            )
    return find_name(model, models, "model")


def events(folder: Path) -> Callable[[dict[str, Any]], None]:
    """A callback that opens its folder with the first record: until then the run's folder may be refused."""
    if find_spec("tensorboard") is None:
        raise ImportError("--tensorboard needs the tensorboard package. Install it with: pip install tensorboard")
    opened: list[TensorBoard] = []

    def listen(record: dict[str, Any]) -> None:
        if not opened:
            opened.append(TensorBoard(folder))
        opened[0](record)

    return listen


def report(console: Console, fitted: TrainedModel, out: Path) -> None:
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
    example = quote(fitted.example[:LONGEST_EXAMPLE])
    run = fitted.system.run
    for command in (f"regard evaluate {quote(str(out))}", task_of(run).example_command(run, quote(str(out)), example)):
        console.print(Text(f"  {command}"), soft_wrap=True)


def speed_of(fitted: TrainedModel) -> float:
    """Target tokens learned from in a second, while learning: the middle one of what was measured."""
    lines = read_lines(RunFolder(fitted.result.folder).metrics)
    speeds = [line["tokens_per_second"] for line in lines if "tokens_per_second" in line]
    return median(speeds) if speeds else 0.0
