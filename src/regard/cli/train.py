"""`regard train`: train the model of a recipe into a folder, which the other commands load."""

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
from regard.tasks import (
    TrainedModel,
    all_tasks,
    count_parameters,
    find_task,
    fit,
    read_run,
    repair_folder,
    several_processes,
    task_of,
)
from regard.training import Interrupted, TensorBoard, is_main_process

# 128 + SIGINT, as in a shell
INTERRUPTED = 130
MAX_EXAMPLE = 200
"""Characters of the example in a suggested command."""
ONE_SIDED = {"valid_source": "valid", "test_source": "test"}
"""Options of files with a source and a target -> the parameters of recipes whose files have one side."""

RecipeName = Annotated[
    str | None, typer.Argument(help=f"One of {', '.join(RECIPES)}, or your file.py:name. Not needed with --resume.")
]
Out = Annotated[Path, typer.Option(help="Folder of the run: model, settings, metrics.")]
ModelName = Annotated[str | None, typer.Option(help="One of `regard list models` (default: the recipe's).")]
LanguagePair = Annotated[str | None, typer.Option(help="Languages, such as en-de.")]
Data = Annotated[
    Path | None, typer.Option(help="Folder of published data sets (default: REGARD_DATA); text, sentences: your file.")
]
Source = Annotated[Path | None, typer.Option(help="pairs: sentences, or one .tsv or .jsonl of pairs.")]
Target = Annotated[Path | None, typer.Option(help="pairs: their translations.")]
ValidSource = Annotated[Path | None, typer.Option(help="For validation (default: held out of the training data).")]
ValidTarget = Annotated[Path | None, typer.Option(help="pairs: translations for validation.")]
TestSource = Annotated[Path | None, typer.Option(help="For `regard evaluate`.")]
TestTarget = Annotated[Path | None, typer.Option(help="pairs: translations for `regard evaluate`.")]
Assignments = Annotated[
    list[str] | None, typer.Option("--set", metavar="KEY=VALUE", help="Such as model.num_layers=6; may be repeated.")
]
Seed = Annotated[int | None, typer.Option(help="The same seed gives the same model.")]
Steps = Annotated[int | None, typer.Option(help="Number of training steps.")]
Device = Annotated[str | None, typer.Option(help="auto, cpu or cuda.")]
Precision = Annotated[str | None, typer.Option(help="auto, fp32 or bf16.")]
Fused = Annotated[
    bool | None, typer.Option("--fused/--no-fused", help="Train with the model's fused code (default) or its own.")
]
Resume = Annotated[bool, typer.Option("--resume", help="Continue the run in the folder; --steps makes it longer.")]
DataChanged = Annotated[bool, typer.Option("--data-changed", help="Resume although the data have changed.")]
Overwrite = Annotated[bool, typer.Option("--overwrite", help="Overwrite the run in the folder.")]
TensorBoardEvents = Annotated[bool, typer.Option("--tensorboard", help="Also write events for TensorBoard.")]


def train(
    recipe: RecipeName = None,
    *,
    out: Out,
    model: ModelName = None,
    pair: LanguagePair = None,
    data: Data = None,
    source: Source = None,
    target: Target = None,
    valid_source: ValidSource = None,
    valid_target: ValidTarget = None,
    test_source: TestSource = None,
    test_target: TestTarget = None,
    assignments: Assignments = None,
    seed: Seed = None,
    steps: Steps = None,
    device: Device = None,
    precision: Precision = None,
    fused: Fused = None,
    resume: Resume = False,
    data_changed: DataChanged = False,
    overwrite: Overwrite = False,
    tensorboard: TensorBoardEvents = False,
) -> None:
    arguments = {
        "pair": pair, "data": data, "source": source, "target": target, "valid_source": valid_source,
        "valid_target": valid_target, "test_source": test_source, "test_target": test_target,
    }  # fmt: skip
    settings = {
        "training.seed": seed,
        "batch.seed": seed,
        "training.steps": steps,
        "training.compute.device": device,
        "training.compute.precision": precision,
        "training.compute.fused": fused,
    }
    if data_changed and not resume:
        raise ValueError("--data-changed needs --resume. Add it, or leave both out.")
    # before the settings of the folder are read; several processes leave it to `fit`, which refuses
    if not several_processes():
        repair_folder(out)
    # a resumed run keeps its own settings, except for those of the options
    run = plan(recipe, model, arguments, settings, assignments or [], earlier=earlier_run(out) if resume else None)
    callbacks = [tensorboard_callback(out / "tensorboard")] if tensorboard else []
    fit_and_report(run, out, resume=resume, data_changed=data_changed, overwrite=overwrite, callbacks=callbacks)


def fit_and_report(run: Any, out: Path, **options: Any) -> None:
    """Train and print the result; an interrupted training prints how to continue and exits with its own code."""
    try:
        fitted = fit(run, out, **options)
    except Interrupted as interrupted:
        if is_main_process():
            Console(stderr=True).print(str(interrupted), markup=False, highlight=False, soft_wrap=True)
        sys.exit(INTERRUPTED)
    # other processes of a launcher print nothing
    if is_main_process():
        report(Console(), fitted, out)


def plan(
    recipe: str | None,
    model: str | None,
    arguments: dict[str, Any],
    settings: dict[str, Any],
    assignments: list[str],
    *,
    earlier: Any = None,
) -> Any:
    """The run: that of a recipe, or the earlier one of the folder; then the short options, then --set."""
    if recipe is None and earlier is None:
        raise ValueError(f"no recipe is named. Name one of {', '.join(RECIPES)}.")
    name = earlier.recipe if recipe is None else recipe_name(recipe)
    model_name = None if model is None else find_model(model, name)
    is_same_model = earlier is not None and model_name in (None, earlier.model_name)
    if is_same_model and label_of(name, model_name, arguments) == earlier.recipe:
        # continues with its own settings; the files may have other paths now
        has_files = any(value is not None for value in arguments.values())
        run = replace(earlier, data=moved_data(name, earlier, arguments)) if has_files else earlier
    else:
        run = make(name, model_name, arguments, settings["training.steps"])
    # a recipe may limit its training by epochs, which --steps replaces
    if settings["training.steps"] is not None:
        run = override(run, f"training.steps={settings['training.steps']}", "training.epochs=none")
    # in this order --set takes precedence
    run = override(run, *(f"{key}={value}" for key, value in settings.items() if value is not None))
    return override(run, *assignments)


def moved_data(recipe: str, earlier: Any, arguments: dict[str, Any]) -> Any:
    """The corpus of a resumed run with its files elsewhere."""
    data = make(recipe, earlier.model_name, arguments, None).data
    # how sentences are assigned to splits is not a question of where they lie
    former = {name: getattr(earlier.data, name) for name in getattr(data, "FORMER_VALUES", {})}
    return replace(data, **former)


def recipe_name(recipe: str) -> str:
    """The name of a recipe in its table; `file.py:name` stays as it is."""
    return recipe if is_reference(recipe) else find_name(recipe, all_recipes(), "recipe")


def label_of(name: str, model: str | None, arguments: dict[str, Any]) -> str:
    """The label of a recipe's runs: its name, unless it is the user's own."""
    # the label of a user's recipe is known only from a run that it makes
    return str(make(name, model, arguments, None).recipe) if is_reference(name) else name


def make(recipe: str, model: str | None, arguments: dict[str, Any], steps: int | None) -> Any:
    """The run of a recipe with the files and languages of the command line."""
    parameters = signature(find_recipe(recipe).make).parameters
    if "data" not in parameters and arguments.get("data") is not None:
        # a published data set is named by its folder
        arguments = {**arguments, "folder": str(arguments["data"].resolve()), "data": None}
    arguments = {
        ONE_SIDED.get(name, name) if ONE_SIDED.get(name) in parameters else name: value
        for name, value in arguments.items()
    }
    if "steps" in parameters:
        # the recipe adapts its warm-up to the number of steps
        arguments = {**arguments, "steps": steps}
    # without None, so that defaults of the recipe hold
    return make_run(recipe, model, **{name: value for name, value in arguments.items() if value is not None})


def earlier_run(out: Path) -> Any:
    """The run in a folder, or None."""
    checkpoint = RunFolder(out)
    return read_run(checkpoint) if checkpoint.config.is_file() else None


def find_model(model: str, recipe: str) -> str:
    """The model of a name among those of the recipe's task; the error for a model of another task says so."""
    own = find_recipe(recipe).task
    if not own:
        # the user's own recipe checks its models itself
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


def tensorboard_callback(folder: Path) -> Callable[[dict[str, Any]], None]:
    """A callback that creates its folder with the first record: before that, the run's folder may be refused."""
    if find_spec("tensorboard") is None:
        raise ImportError("--tensorboard needs the tensorboard package. Install it with: pip install tensorboard")
    writers: list[TensorBoard] = []

    def write(record: dict[str, Any]) -> None:
        if not writers:
            writers.append(TensorBoard(folder))
        writers[0](record)

    return write


def report(console: Console, fitted: TrainedModel, out: Path) -> None:
    """Print the result, its folder, and commands to try."""
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
    # quoted for a shell: an example may contain quotes and `$`
    example = quote(fitted.example[:MAX_EXAMPLE])
    run = fitted.system.run
    for command in (f"regard evaluate {quote(str(out))}", task_of(run).example_command(run, quote(str(out)), example)):
        console.print(Text(f"  {command}"), soft_wrap=True)


def speed_of(fitted: TrainedModel) -> float:
    """Target tokens per second during training: the median over the logged lines."""
    lines = read_lines(RunFolder(fitted.result.folder).metrics)
    # the record of a model that is counted has no speed
    speeds = [line["tokens_per_second"] for line in lines if "tokens_per_second" in line]
    return median(speeds) if speeds else 0.0
