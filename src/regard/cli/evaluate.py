"""`regard evaluate`: the report of a trained model, printed and written as a file."""

from dataclasses import replace
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
from regard.tasks import ExampleSource, Task, data_warning, load, steps_of, task_of, write_report

MAX_COLUMNS = 16
"""Columns that fit into a terminal; wider tables are only in the file."""


def evaluate_folder(
    folder: Annotated[Path, typer.Argument(help="Folder of a model, written by `regard train`.")],
    *,
    split: Annotated[str | None, typer.Option(help="test, validation or train (default: the task's choice).")] = None,
    beam: Annotated[
        int | None, typer.Option(min=1, help="Translation: beam width (default: 5); 1 is greedy search.")
    ] = None,
    data: Annotated[Path | None, typer.Option(help="Folder of published data sets, if it has moved.")] = None,
    source: Annotated[Path | None, typer.Option(help="File of other examples, instead of a split.")] = None,
    target: Annotated[Path | None, typer.Option(help="Translation: file of the targets of --source.")] = None,
    fused: Annotated[bool, typer.Option("--fused/--no-fused", help="Decode with the model's fused code.")] = True,
    device: Annotated[str, typer.Option(help="auto, cpu, cuda, cuda:1 or mps.")] = "auto",
) -> None:
    predictor = load(folder, device=device, fused=fused)
    task, console = task_of(predictor.run), Console()
    options = evaluate_options(task, {"beam": beam})
    example_source = ExampleSource(split=split, source=source, target=target, folder=data)
    for name, examples in task.read_examples(predictor.run, example_source).items():
        with console.status(Text(f"evaluating on {name} ..")):
            report = predictor.evaluate(examples, split=name, steps=steps_of(folder), **options)
        if sentence := data_warning(folder, name, examples):
            report = replace(report, warnings=(*report.warnings, sentence))
        for sentence in report.warnings:
            warn(f"{name}: {sentence}")
        print_report(console, report)
        # the same evaluation overwrites its file; two --source files of one name share a report
        path = RunFolder(folder).evaluation(file_name(task, name, options))
        write_text(path, write_report(report))
        console.print(Text(str(path), style="dim", overflow="fold"))


def evaluate_options(task: Task, options: dict[str, Any]) -> dict[str, Any]:
    """The options on the command line, with the task's defaults for the others."""
    for name, value in options.items():
        # None is an option that was not given
        if value is not None and name not in task.evaluate_options:
            raise ValueError(f"--{name} is no option of {task.title.en.lower()}. Leave it out.")
    return {**task.evaluate_options, **{name: value for name, value in options.items() if value is not None}}


def file_name(task: Task, name: str, options: dict[str, Any]) -> str:
    """The name of a split, with the options that differ from their default."""
    suffixes = (f"-{key}-{value}" for key, value in options.items() if value != task.evaluate_options[key])
    return name + "".join(suffixes)


def print_report(console: Console, report: Report) -> None:
    """Every metric with its signature, then the tables."""
    info = report.info
    head = f"{info.system} on {info.data}, {info.split}: {info.examples:,} examples, {info.parameters:,} parameters"
    console.rule(Text(head), align="left")
    metrics = Table(box=box.SIMPLE_HEAD, padding=(0, 1, 0, 0), show_header=False)
    metrics.add_column(style="bold", no_wrap=True)
    metrics.add_column(justify="right", no_wrap=True)
    metrics.add_column(style="dim", overflow="fold")
    for metric in report.metrics:
        # Text, because titles may contain brackets
        metrics.add_row(Text(metric.title), format(metric.value, metric.format), Text(metric.signature))
    if report.speed is not None:
        details = (info.search, f"{report.speed.seconds:.1f} s", report.speed.hardware)
        rate = f"{report.speed.per_second:,.0f} {report.speed.unit}/s"
        metrics.add_row("speed", rate, Text(", ".join(detail for detail in details if detail)))
    console.print(metrics)
    for note in report.notes:
        console.print(Text(note, style="dim"))
    for table in report.tables:
        if len(table.columns) <= MAX_COLUMNS:
            console.print(rich_table(table))
        else:
            console.print(Text(f"{table.title}: {len(table.columns)} columns, only in the file.", style="dim"))


def rich_table(content: ReportTable) -> Table:
    """A table of a report; columns of numbers are aligned to the right."""
    table = Table(
        box=box.SIMPLE_HEAD,
        padding=(0, 1, 0, 0),
        title=Text(content.title),
        title_justify="left",
        title_style="bold",
    )
    for number, column in enumerate(content.columns):
        # one cell of text is enough, such as a name among numbers
        is_text = any(isinstance(row[number], str) for row in content.rows)
        table.add_column(Text(column.title), justify="left" if is_text else "right", overflow="fold")
    for row in content.rows:
        columns = zip(row, content.columns, strict=True)
        table.add_row(*(Text(format_cell(cell, column.format)) for cell, column in columns))
    return table


def format_cell(cell: Cell, form: str) -> str:
    """A cell as text: empty for None, numbers in the column's format."""
    if cell is None:
        return ""
    return format(cell, form) if isinstance(cell, (int, float)) and form else str(cell)
