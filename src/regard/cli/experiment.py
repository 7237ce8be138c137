"""`regard experiment`: test a claim, print the measurements, write the table and the figure; for all, also a report."""

import time
from pathlib import Path
from typing import Annotated

import torch
import typer
from rich import box
from rich.console import Console
from rich.table import Table
from rich.text import Text

from regard._utils import VERSION, check_free, find_name, hyphenated, write_atomic
from regard.contracts import Title
from regard.display import has_matplotlib
from regard.experiments import EXPERIMENTS
from regard.experiments.lib import (
    OUTCOMES,
    Finding,
    ReportedFinding,
    check_record,
    format_cell,
    record,
    write_findings,
)

ALL = "all"
REPORTS = {"en": "report.md", "zh": "report.zh.md"}
STYLES = {True: "bold green", False: "bold red", None: "bold yellow"}


def experiment(  # noqa: PLR0917 - typer makes options of parameters
    name: Annotated[
        str | None, typer.Argument(help=f"{ALL}, or one of {', '.join(map(hyphenated, EXPERIMENTS))}.")
    ] = None,
    every: Annotated[bool, typer.Option("--all", help="All experiments, as the name all.")] = False,
    full: Annotated[bool, typer.Option("--full", help="The sizes of the recorded version, which take longer.")] = False,
    out: Annotated[Path, typer.Option(help="Folder for PNG, SVG, CSV and the report of all.")] = Path("findings"),
    seed: Annotated[int, typer.Option(help="The same seed gives the same numbers.")] = 0,
    overwrite: Annotated[bool, typer.Option("--overwrite", help="Overwrite the files of an earlier run.")] = False,
) -> None:
    if (name is None) != every:
        raise ValueError("give the name of one experiment, or --all. `regard list experiments` shows them.")
    choice = ALL if name is None else find_name(name, (ALL, *EXPERIMENTS), "experiment")
    names = list(EXPERIMENTS) if choice == ALL else [choice]
    # all files are checked before the first experiment runs
    for experiment_name in names:
        check_record(experiment_name, out, overwrite=overwrite)
    for file in REPORTS.values() if choice == ALL else ():
        check_free(out / file, overwrite=overwrite)
    console = Console()
    reported = []
    for experiment_name in names:
        reported.append(run_one(console, experiment_name, out, seed=seed, full=full, overwrite=overwrite))
        # after each, so that an interruption leaves the report of those that are done
        if choice == ALL:
            save_reports(reported, out, seed=seed, full=full)
    if choice == ALL:
        num_holding = sum(one.finding.holds is True for one in reported)
        console.print(f"{num_holding} of {len(reported)} claims hold.", style="bold", highlight=False)
        console.print("  ".join(str(out / file) for file in REPORTS.values()), style="dim", highlight=False)


def run_one(console: Console, name: str, out: Path, *, seed: int, full: bool, overwrite: bool) -> ReportedFinding:
    """Run an experiment, write its files and print it."""
    entry, start = EXPERIMENTS[name], time.perf_counter()
    with console.status(f"{hyphenated(name)} ..."):
        finding = entry.run(seed=seed, **(entry.full if full else {}))
    seconds = time.perf_counter() - start
    print_finding(console, finding, record(finding, out, overwrite=overwrite), seconds)
    return ReportedFinding(experiment=entry, finding=finding, seconds=seconds)


def save_reports(reported: list[ReportedFinding], out: Path, *, seed: int, full: bool) -> None:
    """Write the report in both languages, over that of the experiments before."""
    circumstances = Title(
        en=f"regard {VERSION}, torch {torch.__version__}, seed {seed}{', --full' if full else ''}",
        zh=f"regard {VERSION}，torch {torch.__version__}，种子 {seed}{'，--full' if full else ''}",
    )
    texts = {
        "en": write_findings(reported, circumstances=circumstances.en, language="en"),
        "zh": write_findings(reported, circumstances=circumstances.zh, language="zh"),
    }
    for language, text in texts.items():
        # overwriting was permitted, or the file was found to be absent, before the first experiment
        write_atomic(out / REPORTS[language], text.encode(), overwrite=True)


def print_finding(console: Console, finding: Finding, paths: list[Path], seconds: float) -> None:
    """The claim, the measurements, the verdict, and the files."""
    console.rule(f"{hyphenated(finding.name)}, {seconds:.1f} s", align="left")
    console.print(Text(finding.claim.en, style="italic"))
    table = Table(box=box.SIMPLE_HEAD, padding=(0, 1, 0, 0))
    for column in finding.columns:
        is_numeric = any(not isinstance(row[column], str) for row in finding.rows)
        table.add_column(column, justify="right" if is_numeric else "left", overflow="fold")
    for row in finding.rows:
        table.add_row(*(Text(format_cell(value)) for value in row.values()))
    console.print(table)
    verdict = Text.assemble((f"{OUTCOMES[finding.holds].en} ", STYLES[finding.holds]))
    console.print(verdict.append(finding.verdict.en))
    console.print(Text("  ".join(map(str, paths)), style="dim", overflow="fold"))
    if not has_matplotlib():
        console.print("No figure: matplotlib is not installed (pip install matplotlib).", style="yellow")
    console.print()
