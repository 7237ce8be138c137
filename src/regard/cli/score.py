"""`regard score`: the log-probability of outputs that are given, and n-best lists in a better order.

    log p(target | source), in nats: of a translation with its end, of a continuation, of a class

An n-best list has lines `number ||| hypothesis ||| ..`, the number that of its source, counted from 0 (Moses' format).
The score is added as a last field; --rerank sorts the hypotheses of each source by it, best first.
"""

import sys
from dataclasses import dataclass
from itertools import groupby
from pathlib import Path
from typing import Annotated

import typer

from regard.data.text import read_lines, read_partners
from regard.tasks import load

BETWEEN = "|||"


@dataclass(frozen=True, kw_only=True)
class Entry:
    """A line of an n-best list."""

    number: int
    hypothesis: str
    line: str


def score(
    folder: Annotated[Path, typer.Argument(help="What `regard train` wrote.")],
    *,
    source: Annotated[Path, typer.Option(help="Inputs, one a line.")],
    target: Annotated[Path | None, typer.Option(help="An output for each input.")] = None,
    num_best: Annotated[Path | None, typer.Option("--n-best", help="A list: number ||| hypothesis ||| ..")] = None,
    rerank: Annotated[bool, typer.Option("--rerank", help="Sort each source's hypotheses by the score.")] = False,
    device: Annotated[str, typer.Option(help="auto, cpu, cuda, cuda:1 or mps.")] = "auto",
) -> None:
    """Print log p(target | source) for each line, or rescore an n-best list."""
    if (target is None) == (num_best is None):
        raise ValueError("name either --target, a translation of each source, or --n-best, a list of hypotheses.")
    if rerank and num_best is None:
        raise ValueError("--rerank sorts an n-best list. Name one with --n-best.")
    if target is not None:
        sources, targets = read_partners(source, target)
        for value in load(folder, device=device).score(sources, targets):
            sys.stdout.write(f"{value:.6f}\n")
    elif num_best is not None:
        sources = read_lines(source)
        entries = read_entries(num_best, len(sources))
        hypotheses = [entry.hypothesis for entry in entries]
        values = load(folder, device=device).score([sources[entry.number] for entry in entries], hypotheses)
        for line in rescored(entries, values, rerank=rerank):
            sys.stdout.write(f"{line}\n")


def read_entries(path: Path, num_sources: int) -> list[Entry]:
    """The lines of an n-best list, or what is wrong with one."""
    entries = []
    for place, line in enumerate(read_lines(path), start=1):
        fields = line.split(BETWEEN)
        if len(fields) < 2 or not fields[0].strip().isdecimal():
            raise ValueError(f"line {place} of {path} is not `number ||| hypothesis ||| ..`: {line[:60]!r}.")
        number = int(fields[0])
        if number >= num_sources:
            raise ValueError(
                f"line {place} of {path} belongs to source {number}, but there are {num_sources}, counted from 0."
            )
        entries.append(Entry(number=number, hypothesis=fields[1].strip(), line=line.rstrip()))
    return entries


def rescored(entries: list[Entry], values: list[float], *, rerank: bool) -> list[str]:
    """Each line with its score; hypotheses of equal score stay in their order."""
    lines = []
    for _, group in groupby(zip(entries, values, strict=True), key=lambda pair: pair[0].number):
        pairs = list(group)
        if rerank:
            pairs.sort(key=lambda pair: -pair[1])
        lines += [f"{entry.line} {BETWEEN} {value:.6f}" for entry, value in pairs]
    return lines
