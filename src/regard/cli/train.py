"""`regard train`: a recipe and a model become a folder that translates."""

import sys
from collections.abc import Callable
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
from regard.models import MODELS
from regard.recipes import RECIPES, Fitted, Run, count_parameters, fit, make_run, override
from regard.recipes.files import FileCorpus
from regard.storage import Checkpoint, read_lines
from regard.training import Interrupted, TensorBoard, is_main_process

INTERRUPTED = 130


def train(
    recipe: Annotated[str, typer.Argument(help=f"One of {', '.join(RECIPES)}.")],
    *,
    out: Annotated[Path, typer.Option(help="Folder for the model and all that belongs to it.")],
    model: Annotated[str, typer.Option(help=f"One of {', '.join(map(spoken, MODELS))}.")] = "transformer",
    pair: Annotated[str | None, typer.Option(help="Languages, such as en-de.")] = None,
    data: Annotated[Path | None, typer.Option(help="Folder of published sets (default: REGARD_DATA).")] = None,
    source: Annotated[Path | None, typer.Option(help="pairs: sentences, or one .tsv or .jsonl.")] = None,
    target: Annotated[Path | None, typer.Option(help="pairs: their translations.")] = None,
    valid_source: Annotated[Path | None, typer.Option(help="pairs: for validation; else held out.")] = None,
    valid_target: Annotated[Path | None, typer.Option(help="pairs: for validation.")] = None,
    test_source: Annotated[Path | None, typer.Option(help="pairs: for `regard evaluate`.")] = None,
    test_target: Annotated[Path | None, typer.Option(help="pairs: for `regard evaluate`.")] = None,
    assignments: Annotated[
        list[str] | None, typer.Option("--set", metavar="KEY=VALUE", help="Such as model.layers=6. May be repeated.")
    ] = None,
    seed: Annotated[int | None, typer.Option(help="The same seed gives the same model.")] = None,
    steps: Annotated[int | None, typer.Option(help="Train for so many steps.")] = None,
    device: Annotated[str | None, typer.Option(help="auto, cpu or cuda.")] = None,
    precision: Annotated[str | None, typer.Option(help="auto, fp32 or bf16.")] = None,
    resume: Annotated[bool, typer.Option("--resume", help="Go on with the run in the folder.")] = False,
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
    given = {"pair": pair, "folder": None if data is None else str(data.resolve()), **files}
    quick = {
        "training.seed": seed,
        "batch.seed": seed,
        "training.steps": steps,
        "training.compute.device": device,
        "training.compute.precision": precision,
    }
    run = plan(recipe, model, given, quick, assignments or [])
    listeners = [events(out / "tensorboard")] if tensorboard else []
    try:
        fitted = fit(run, out, resume=resume, overwrite=overwrite, listeners=listeners)
    except Interrupted:
        # training has said where it stopped and how to go on
        sys.exit(INTERRUPTED)
    if is_main_process():
        report(Console(), fitted, out)


def plan(recipe: str, model: str, given: dict[str, Any], quick: dict[str, Any], assignments: list[str]) -> Run:
    """The run that was asked for: a recipe, then the short options, then --set."""
    named = find_name(recipe, RECIPES, "recipe")
    chosen = find_name(model, MODELS, "model")
    if "steps" in signature(RECIPES[named].make).parameters:
        # such a recipe fits its warm-up to the number of steps
        given = {**given, "steps": quick["training.steps"]}
    run = make_run(named, chosen, **{name: value for name, value in given.items() if value is not None})
    if quick["training.steps"] is not None:
        run = override(run, f"training.steps={quick['training.steps']}", "training.epochs=none")
    run = override(run, *(f"{key}={value}" for key, value in quick.items() if value is not None))
    return override(run, *assignments)


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
    table.add_row("parameters", f"{count_parameters(fitted.translator.model):,}")
    table.add_row("trained", f"{result.steps:,} steps, {result.seconds:.0f} s, {speed_of(fitted):,.0f} tokens/s")
    table.add_row("weights", f"{result.chosen}, of step {result.chosen_step:,}")
    table.add_row("folder", str(out))
    console.print(table)
    console.print("Try:", style="bold")
    linked = " --alignments" if MODELS[fitted.translator.config.model_name].attends else ""
    for command in (
        f"regard evaluate {quote(str(out))} --split {'test' if has_test(fitted) else 'validation'}",
        f"echo {quote(fitted.example)} | regard translate {quote(str(out))} --beam 5{linked}",
    ):
        console.print(Text(f"  {command}"), soft_wrap=True)


def has_test(fitted: Fitted) -> bool:
    """Whether the run's data have a test; files that name a validation and no test have none."""
    data = fitted.translator.config.data
    return not (isinstance(data, FileCorpus) and data.valid_source is not None and data.test_source is None)


def speed_of(fitted: Fitted) -> float:
    """Target tokens learned from in a second, while learning: the middle one of what was measured."""
    lines = read_lines(Checkpoint(fitted.result.folder).metrics)
    return median(line["tokens_per_second"] for line in lines) if lines else 0.0
