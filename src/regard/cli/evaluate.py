"""`regard evaluate`: the report of a trained system, printed and written as a file."""

from pathlib import Path
from typing import Annotated, Any

import typer
from rich import box
from rich.console import Console
from rich.table import Table
from rich.text import Text

from regard._utils import write_text
from regard.checkpoint import RunFolder
from regard.cli.streams import warn
from regard.contracts import Cell, Report, ReportTable
from regard.tasks import ExampleSource, Task, load, steps_of, task_of, write_report

WIDEST = 16
"""Columns that fit into a terminal; wider tables are in the file."""


def evaluate_folder(
    folder: Annotated[Path, typer.Argument(help="What `regard train` wrote.")],
    *,
    split: Annotated[
        str | None, typer.Option(help="test, validation or train; without it, what the task evaluates on.")
    ] = None,
    beam: Annotated[
        int | None, typer.Option(min=1, help="Translation: hypotheses of the search (default: 5); 1 is greedy.")
    ] = None,
    data: Annotated[Path | None, typer.Option(help="Folder of published sets, where it moved.")] = None,
    source: Annotated[Path | None, typer.Option(help="A file of other examples, instead of a split.")] = None,
    target: Annotated[Path | None, typer.Option(help="Translation: the targets of --source.")] = None,
    fused: Annotated[bool, typer.Option("--fused/--no-fused", help="Decode with the fused code of a model.")] = True,
    device: Annotated[str, typer.Option(help="auto, cpu, cuda, cuda:1 or mps.")] = "auto",
) -> None:
    """Measure what a system was trained for: BLEU and more, perplexity, or accuracy and confusions."""
    predictor = load(folder, device=device, fused=fused)
    task, console = task_of(predictor.run), Console()
    options = chosen_options(task, {"beam": beam})
    chosen = ExampleSource(split=split, source=source, target=target, folder=data)
    for name, examples in task.read_examples(predictor.run, chosen).items():
        with console.status(Text(f"evaluating on {name} ..")):
            report = predictor.evaluate(examples, split=name, steps=steps_of(folder), **options)
        for sentence in report.warnings:
            warn(f"{name}: {sentence}")
        print_report(console, report)
        # asking again replaces the answer; files of one name are taken for one question
        path = RunFolder(folder).evaluation(file_name(task, name, options))
        write_text(path, write_report(report))
        console.print(Text(str(path), style="dim", overflow="fold"))


def chosen_options(task: Task, options: dict[str, Any]) -> dict[str, Any]:
    """The options that were named, with the task's defaults for the others."""
    for name, value in options.items():
        if value is not None and name not in task.evaluate_options:
            raise ValueError(f"--{name} is no option of {task.title.en.lower()}. Leave it out.")
    return {**task.evaluate_options, **{name: value for name, value in options.items() if value is not None}}


def file_name(task: Task, name: str, options: dict[str, Any]) -> str:
    """A split's name, with the options that are not the default."""
    others = (f"-{key}-{value}" for key, value in options.items() if value != task.evaluate_options[key])
    return name + "".join(others)


def print_report(console: Console, report: Report) -> None:
    """Every metric with how it was computed, then the tables."""
    info = report.info
    head = f"{info.system} on {info.data}, {info.split}: {info.examples:,} examples, {info.parameters:,} parameters"
    console.rule(Text(head), align="left")
    table = Table(box=box.SIMPLE_HEAD, padding=(0, 1, 0, 0), show_header=False)
    table.add_column(style="bold", no_wrap=True)
    table.add_column(justify="right", no_wrap=True)
    table.add_column(style="dim", overflow="fold")
    for metric in report.metrics:
        table.add_row(Text(metric.title), format(metric.value, metric.format), Text(metric.signature))
    if report.speed is not None:
        about = (info.search, f"{report.speed.seconds:.1f} s", report.speed.hardware)
        rate = f"{report.speed.per_second:,.0f} {report.speed.unit}/s"
        table.add_row("speed", rate, Text(", ".join(part for part in about if part)))
    console.print(table)
    for note in report.notes:
        console.print(Text(note, style="dim"))
    for one in report.tables:
        if len(one.columns) <= WIDEST:
            console.print(table_of(one))
        else:
            console.print(Text(f"{one.title}: {len(one.columns)} columns, which the file has.", style="dim"))


def table_of(content: ReportTable) -> Table:
    """A table of a report; columns of numbers are to the right."""
    table = Table(
        box=box.SIMPLE_HEAD,
        padding=(0, 1, 0, 0),
        title=Text(content.title),
        title_justify="left",
        title_style="bold",
    )
    for number, column in enumerate(content.columns):
        is_text = any(isinstance(row[number], str) for row in content.rows)
        table.add_column(Text(column.title), justify="left" if is_text else "right", overflow="fold")
    for row in content.rows:
        columns = zip(row, content.columns, strict=True)
        table.add_row(*(Text(shown(cell, column.format)) for cell, column in columns))
    return table


def shown(cell: Cell, form: str) -> str:
    """A cell as text: empty for nothing, numbers in the column's format."""
    if cell is None:
        return ""
    return format(cell, form) if isinstance(cell, (int, float)) and form else str(cell)
