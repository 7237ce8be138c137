"""`regard experiment`: put a claim to the test, print what was measured, keep table and figure."""

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
from regard.experiments.lib import Finding, check_record, record, shown


def experiment(
    name: Annotated[str, typer.Argument(help=f"all, or one of {', '.join(map(hyphenated, EXPERIMENTS))}.")],
    out: Annotated[Path, typer.Option(help="Folder for PNG, SVG and CSV.")] = Path("findings"),
    seed: Annotated[int, typer.Option(help="The same seed gives the same numbers.")] = 0,
    overwrite: Annotated[bool, typer.Option("--overwrite", help="Write over files of an earlier run.")] = False,
) -> None:
    """Test a claim about attention: a table, a figure and a verdict from the numbers."""
    asked = find_name(name, ("all", *EXPERIMENTS), "experiment")
    chosen = list(EXPERIMENTS) if asked == "all" else [asked]
    for one in chosen:
        check_record(one, out, overwrite=overwrite)
    console = Console()
    findings = []
    for one in chosen:
        began = time.perf_counter()
        with console.status(f"{hyphenated(one)} ..."):
            finding = EXPERIMENTS[one].run(seed=seed)
        paths = record(finding, out, overwrite=overwrite)
        say(console, finding, paths, time.perf_counter() - began)
        findings.append(finding)
    if len(findings) > 1:
        held = sum(finding.holds for finding in findings)
        console.print(f"{held} of {len(findings)} claims hold.", style="bold", highlight=False)


def say(console: Console, finding: Finding, paths: list[Path], seconds: float) -> None:
    """The claim, the numbers, the verdict, and where to find them."""
    console.rule(f"{hyphenated(finding.name)}, {seconds:.1f} s", align="left")
    console.print(Text(finding.claim, style="italic"))
    table = Table(box=box.SIMPLE_HEAD, padding=(0, 1, 0, 0))
    for column in finding.columns:
        numbers = any(not isinstance(row[column], str) for row in finding.rows)
        table.add_column(column, justify="right" if numbers else "left", overflow="fold")
    for row in finding.rows:
        table.add_row(*(Text(shown(value)) for value in row.values()))
    console.print(table)
    verdict = Text.assemble(("Holds. ", "bold green") if finding.holds else ("Does not hold. ", "bold red"))
    console.print(verdict.append(finding.verdict))
    console.print(Text("  ".join(map(str, paths)), style="dim", overflow="fold"))
    if not has_matplotlib():
        console.print("No figure: matplotlib is not installed (pip install matplotlib).", style="yellow")
    console.print()
