"""`regard score`: the log-probability of outputs, and rescored n-best lists.

    log p(target | source), in nats: of a translation with its end, of a continuation, of a class

An n-best list has lines `number ||| hypothesis ||| ..`; the number is that of the source, counted from 0 (Moses'
format). The score is added as a last field; --rerank sorts the hypotheses of each source by it, best first.
"""

import sys
from collections.abc import Sequence
from dataclasses import dataclass
from itertools import groupby
from pathlib import Path
from typing import Annotated

import typer

from regard.cli.streams import UnknownTokens
from regard.contracts import Predictor
from regard.data.text import read_lines, read_partners
from regard.tasks import load

SEPARATOR = "|||"


@dataclass(frozen=True, kw_only=True)
class NumberedHypothesis:
    """A line of an n-best list."""

    number: int
    hypothesis: str
    line: str


def score(
    folder: Annotated[Path, typer.Argument(help="Folder of a model, written by `regard train`.")],
    *,
    source: Annotated[Path, typer.Option(help="File of inputs, one per line.")],
    target: Annotated[Path | None, typer.Option(help="File of outputs, one for each input.")] = None,
    hypotheses: Annotated[Path | None, typer.Option(help="An n-best list: number ||| hypothesis ||| ..")] = None,
    rerank: Annotated[bool, typer.Option("--rerank", help="Sort each source's hypotheses by the score.")] = False,
    device: Annotated[str, typer.Option(help="auto, cpu, cuda, cuda:1 or mps.")] = "auto",
) -> None:
    if (target is None) == (hypotheses is None):
        raise ValueError("give either --target, an output for each source, or --hypotheses, an n-best list.")
    if rerank and hypotheses is None:
        raise ValueError("--rerank sorts an n-best list. Name one with --hypotheses.")
    if target is not None:
        sources, targets = read_partners(source, target)
        predictor = load(folder, device=device)
        warn_of_texts(predictor, sources, targets, folder)
        for value in predictor.score(sources, targets):
            sys.stdout.write(f"{value:.6f}\n")
    elif hypotheses is not None:
        sources = read_lines(source)
        # checked before the model is loaded
        entries = read_hypotheses(hypotheses, len(sources))
        texts = [entry.hypothesis for entry in entries]
        predictor = load(folder, device=device)
        warn_of_texts(predictor, sources, texts, folder)
        values = predictor.score([sources[entry.number] for entry in entries], texts)
        for line in rescored(entries, values, rerank=rerank):
            sys.stdout.write(f"{line}\n")


def warn_of_texts(predictor: Predictor, sources: Sequence[str], targets: Sequence[str], folder: Path) -> None:
    """Warn of unknown tokens on either side: their scores are those of <unk>."""
    for name, texts in (("source", sources), ("target", targets)):
        unknown_tokens = UnknownTokens(folder)
        for number, text in enumerate(texts, start=1):
            unknown_tokens.add(f"{name} {number}", predictor.unknown_in(text, is_output=name == "target"))
        unknown_tokens.close()


def read_hypotheses(path: Path, num_sources: int) -> list[NumberedHypothesis]:
    """The lines of an n-best list; ValueError names the line that is not one."""
    entries = []
    for line_number, line in enumerate(read_lines(path), start=1):
        fields = line.split(SEPARATOR)
        # isdecimal, because isdigit accepts superscripts, which int() refuses
        if len(fields) < 2 or not fields[0].strip().isdecimal():
            raise ValueError(f"line {line_number} of {path} is not `number ||| hypothesis ||| ..`: {line[:60]!r}.")
        number = int(fields[0])
        if number >= num_sources:
            raise ValueError(
                f"line {line_number} of {path} belongs to source {number}, but there are {num_sources}, counted from 0."
            )
        entries.append(NumberedHypothesis(number=number, hypothesis=fields[1].strip(), line=line.rstrip()))
    return entries


def rescored(entries: list[NumberedHypothesis], values: list[float], *, rerank: bool) -> list[str]:
    """Each line with its score; hypotheses of equal score stay in their order."""
    lines = []
    # groupby joins adjacent lines: the hypotheses of a source are together in an n-best list
    for _, group in groupby(zip(entries, values, strict=True), key=lambda pair: pair[0].number):
        pairs = list(group)
        if rerank:
            # the sort is stable
            pairs.sort(key=lambda pair: -pair[1])
        lines += [f"{entry.line} {SEPARATOR} {value:.6f}" for entry, value in pairs]
    return lines
