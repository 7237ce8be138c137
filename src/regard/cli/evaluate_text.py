"""`regard evaluate` of a language model: perplexity per word and split, and how far back it looks."""

from pathlib import Path

from rich import box
from rich.console import Console
from rich.table import Table
from rich.text import Text

from regard.evaluation.language_report import LanguageReport
from regard.evaluation.spans import SPANS
from regard.recipes import Writer, evaluate_language, override, steps_of
from regard.recipes.language.corpora import read_text
from regard.storage import Checkpoint, write_text

MOST_SHOWN = 1e5
"""Perplexities above it, as letters have them, are written as powers of ten."""


def find_texts(writer: Writer, split: str | None, *, data: Path | None, file: Path | None) -> dict[str, str]:
    """The texts to evaluate on, by what they are called."""
    if file is not None:
        # as no split is called
        return {f"file-{file.name}": read_text(file)}
    corpus = writer.config.data
    if data is not None:
        if not hasattr(corpus, "folder"):
            raise ValueError(f"the recipe {writer.config.recipe} reads no data folder. Leave out --data.")
        corpus = override(corpus, f"folder={data}")
    return {name: corpus.read(name) for name in ([split] if split else corpus.splits[1:])}


def evaluate_text(writer: Writer, folder: Path, texts: dict[str, str]) -> None:
    """Read each text, the state carried through all of it."""
    console, reports = Console(), []
    for name, text in texts.items():
        with console.status(Text(f"reading {name}, {len(text):,} characters ..")):
            report = evaluate_language(writer, text, split=name, steps=steps_of(folder))
        reports.append(report)
    about = reports[0].circumstances
    console.rule(f"{about.system} on {about.data}, {about.parameters:,} parameters", align="left")
    console.print(likelihood_table(reports))
    for report in reports:
        if report.reaches:
            console.print(reach_table(report))
    for name, report in zip(texts, reports, strict=True):
        path = Checkpoint(folder).evaluation(name)
        write_text(path, report.to_json())
        console.print(Text(str(path), style="dim", overflow="fold"))


def likelihood_table(reports: list[LanguageReport]) -> Table:
    """A row a split; every count is told, for a perplexity means little without."""
    table = Table(box=box.SIMPLE_HEAD, padding=(0, 1, 0, 0), caption=reports[0].reading, caption_justify="left")
    for head in ("split", "perplexity", "bits/char", "nats/token", "words", "tokens", "<unk>", "tokens/s"):
        table.add_column(head, justify="left" if head == "split" else "right", overflow="fold")
    for report in reports:
        found, speed = report.likelihood, report.speed
        table.add_row(
            Text(report.circumstances.split),
            f"{report.perplexity:.2f}" if report.perplexity < MOST_SHOWN else f"{report.perplexity:.2e}",
            f"{report.bits_per_character:.3f}",
            f"{report.loss:.4f}",
            f"{found.words:,}",
            f"{found.tokens:,}",
            f"{found.unknown:,}",
            f"{speed.tokens_per_second:,.0f}" if speed else "",
        )
    return table


def reach_table(report: LanguageReport) -> Table:
    """How much weight falls on the last words, of every attention."""
    table = Table(
        box=box.SIMPLE_HEAD,
        padding=(0, 1, 0, 0),
        title=Text(f"attention on {report.circumstances.split}: weight within the last n tokens"),
        title_justify="left",
        title_style="bold",
    )
    table.add_column("attention", overflow="fold")
    for span in SPANS:
        table.add_column(str(span), justify="right")
    table.add_column("mean distance", justify="right")
    for reach in report.reaches:
        table.add_row(reach.path, *(f"{share:.1%}" for share in reach.within), f"{reach.distance:.1f}")
    return table
