"""`regard experiment`: test a claim, print the measurements, write the table and the figure."""

import time
from pathlib import Path
from typing import Annotated

import typer
from rich import box
from rich.console import Console
from rich.table import Table
from rich.text import Text

from regard._utils import find_name, hyphenated
from regard.display import has_matplotlib
from regard.experiments import EXPERIMENTS
from regard.experiments.lib import Finding, check_record, format_cell, record


def experiment(
    name: Annotated[str, typer.Argument(help=f"all, or one of {', '.join(map(hyphenated, EXPERIMENTS))}.")],
    out: Annotated[Path, typer.Option(help="Folder for PNG, SVG and CSV.")] = Path("findings"),
    seed: Annotated[int, typer.Option(help="The same seed gives the same numbers.")] = 0,
    overwrite: Annotated[bool, typer.Option("--overwrite", help="Overwrite the files of an earlier run.")] = False,
) -> None:
    choice = find_name(name, ("all", *EXPERIMENTS), "experiment")
    names = list(EXPERIMENTS) if choice == "all" else [choice]
    for experiment_name in names:
        # all files are checked before the first experiment runs
        check_record(experiment_name, out, overwrite=overwrite)
    console = Console()
    findings = []
    for experiment_name in names:
        start = time.perf_counter()
        with console.status(f"{hyphenated(experiment_name)} ..."):
            finding = EXPERIMENTS[experiment_name].run(seed=seed)
        paths = record(finding, out, overwrite=overwrite)
        print_finding(console, finding, paths, time.perf_counter() - start)
        findings.append(finding)
    if len(findings) > 1:
        num_holding = sum(finding.holds for finding in findings)
        console.print(f"{num_holding} of {len(findings)} claims hold.", style="bold", highlight=False)


def print_finding(console: Console, finding: Finding, paths: list[Path], seconds: float) -> None:
    """The claim, the measurements, the verdict, and the files."""
    console.rule(f"{hyphenated(finding.name)}, {seconds:.1f} s", align="left")
    console.print(Text(finding.claim, style="italic"))
    table = Table(box=box.SIMPLE_HEAD, padding=(0, 1, 0, 0))
    for column in finding.columns:
        is_numeric = any(not isinstance(row[column], str) for row in finding.rows)
        table.add_column(column, justify="right" if is_numeric else "left", overflow="fold")
    for row in finding.rows:
        table.add_row(*(Text(format_cell(value)) for value in row.values()))
    console.print(table)
    verdict = Text.assemble(("Holds. ", "bold green") if finding.holds else ("Does not hold. ", "bold red"))
    console.print(verdict.append(finding.verdict.en))
    console.print(Text("  ".join(map(str, paths)), style="dim", overflow="fold"))
    if not has_matplotlib():
        console.print("No figure: matplotlib is not installed (pip install matplotlib).", style="yellow")
    console.print()
