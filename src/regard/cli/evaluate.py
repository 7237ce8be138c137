"""`regard evaluate`: how good a trained system is, as a table and as a file."""

from pathlib import Path
from typing import Annotated

import typer
from rich import box
from rich.console import Console
from rich.table import Table
from rich.text import Text

from regard.cli.evaluate_sentences import evaluate_classes, find_sentences
from regard.cli.evaluate_text import evaluate_text, find_texts
from regard.data import Pairs
from regard.evaluation import Report
from regard.recipes import Classifier, Translator, Writer, evaluate, load, steps_of
from regard.recipes.files import read_files
from regard.recipes.override import override
from regard.storage import Checkpoint, write_text

BEAM = 5


def evaluate_folder(
    folder: Annotated[Path, typer.Argument(help="What `regard train` wrote.")],
    *,
    split: Annotated[
        str | None, typer.Option(help="test or validation (or train); texts and sentences: all but train.")
    ] = None,
    beam: Annotated[int, typer.Option(min=1, help="Translation: hypotheses that are kept; 1 is greedy.")] = BEAM,
    data: Annotated[Path | None, typer.Option(help="Folder of published sets, where it moved.")] = None,
    source: Annotated[Path | None, typer.Option(help="Other sentences or another text, instead of a split.")] = None,
    target: Annotated[Path | None, typer.Option(help="Their translations.")] = None,
    fused: Annotated[bool, typer.Option("--fused/--no-fused", help="Decode with the fused code of a model.")] = True,
    device: Annotated[str, typer.Option(help="auto, cpu or cuda.")] = "auto",
) -> None:
    """Measure what a system was trained for: BLEU and more, perplexity and reach, or accuracy and confusions."""
    system = load(folder, device=device, fused=fused)
    if target is not None and not isinstance(system, Translator):
        raise ValueError(
            f"--target is for translations, and {folder} holds a {system.config.model_name}. Leave it out."
        )
    if isinstance(system, Writer):
        evaluate_text(system, folder, find_texts(system, split, data=data, file=source))
    elif isinstance(system, Classifier):
        evaluate_classes(system, folder, find_sentences(system, split, data=data, file=source))
    else:
        pairs, name = find_pairs(system, split or "test", data=data, source=source, target=target)
        evaluate_pairs(system, folder, pairs, name, beam)


def evaluate_pairs(translator: Translator, folder: Path, pairs: Pairs, name: str, beam: int) -> None:
    """BLEU, chrF, exact matches, perplexity, and quality by length."""
    console = Console()
    with console.status(f"translating {len(pairs):,} sentences .."):
        report = evaluate(translator, pairs, split=name, beam=beam, steps=steps_of(folder))
    # asking again replaces the answer; files of one name are taken for one question
    path = Checkpoint(folder).evaluation(name if beam == BEAM else f"{name}-beam-{beam}")
    say(console, report)
    write_text(path, report.to_json())
    console.print(Text(str(path), style="dim", overflow="fold"))


def find_pairs(
    translator: Translator, split: str, *, data: Path | None, source: Path | None, target: Path | None
) -> tuple[Pairs, str]:
    """The pairs to evaluate on, and what to call them."""
    if source is not None or target is not None:
        files = [None if path is None else str(path) for path in (source, target)]
        # as no split is called
        return read_files(*files), f"file-{(source or Path('files')).name}"
    corpus = translator.config.data
    if data is not None:
        if not hasattr(corpus, "folder"):
            raise ValueError(f"the recipe {translator.config.recipe} reads no data folder. Leave out --data.")
        corpus = override(corpus, f"folder={data}")
    return corpus.read(split), split


def say(console: Console, report: Report) -> None:
    """The figures, each with how it was computed."""
    about = report.circumstances
    console.rule(Text(f"{about.system} on {about.data}, {about.split}: {about.sentences:,} sentences"), align="left")
    table = Table(box=box.SIMPLE_HEAD, padding=(0, 1, 0, 0), show_header=False)
    table.add_column(style="bold", no_wrap=True)
    table.add_column(justify="right", no_wrap=True)
    table.add_column(style="dim", overflow="fold")
    for quality in (report.bleu, report.bleu_tokenised, report.chrf):
        if quality is not None:
            table.add_row(quality.name, f"{quality.score:.2f}", quality.signature)
    if report.exact_match is not None:
        table.add_row("exact match", f"{100 * report.exact_match:.1f} %", "")
    if report.perplexity is not None:
        counted = f"{report.perplexity.tokens:,} target tokens"
        table.add_row("perplexity", f"{report.perplexity.perplexity:.3f}", counted)
    if report.speed is not None:
        told = f"{about.search}, {report.speed.seconds:.1f} s, {report.speed.hardware}"
        table.add_row("speed", f"{report.speed.tokens_per_second:,.0f} tokens/s", told)
    console.print(table)
    console.print(lengths_table(report))


def lengths_table(report: Report) -> Table:
    """Quality by the length of the source."""
    percent = report.circumstances.data.split()[0] in ("dates", "reverse", "copy")
    table = Table(box=box.SIMPLE_HEAD, padding=(0, 1, 0, 0))
    table.add_column("source length", justify="right")
    table.add_column("sentences", justify="right")
    table.add_column("exact match" if percent else "BLEU", justify="right")
    for bucket in report.by_length:
        if bucket.value is not None:
            value = f"{100 * bucket.value:.1f} %" if percent else f"{bucket.value:.2f}"
            table.add_row(bucket.label, f"{bucket.count:,}", value)
    return table
