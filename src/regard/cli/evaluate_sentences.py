"""`regard evaluate` of a classifier: accuracy, the confusion table, and how alike its rows of attention are."""

from pathlib import Path

from rich import box
from rich.console import Console
from rich.table import Table
from rich.text import Text

from regard.cli.streams import warn
from regard.data.labelled import make_labelled
from regard.data.sentences import Sentences, read_sentences
from regard.evaluation.classification import ClassificationReport
from regard.recipes import Classifier, evaluate_sentences, steps_of
from regard.storage import Checkpoint, write_text

WIDEST = 12
"""Classes whose confusions fit into a terminal; the file has all."""


def find_sentences(
    classifier: Classifier, split: str | None, *, data: Path | None, file: Path | None
) -> dict[str, Sentences]:
    """The sentences to evaluate on, by what they are called."""
    if data is not None:
        raise ValueError("sentences are read from a file, not from a data folder. Name it with --source.")
    if file is not None:
        return {f"file-{file.name}": read_sentences(file)}
    corpus = classifier.config.data
    return {name: corpus.read(name) for name in ([split] if split else corpus.splits[1:])}


def evaluate_classes(classifier: Classifier, folder: Path, sets: dict[str, Sentences]) -> None:
    """Classify each set."""
    console = Console()
    for name, sentences in sets.items():
        report = evaluate_sentences(classifier, sentences, split=name, steps=steps_of(folder))
        warn_of_sentences(classifier, sentences, name)
        path = Checkpoint(folder).evaluation(name)
        say(console, report)
        write_text(path, report.to_json())
        console.print(Text(str(path), style="dim", overflow="fold"))


def warn_of_sentences(classifier: Classifier, sentences: Sentences, name: str) -> None:
    """Say on standard error what was not read, and which classes nobody could have learned."""
    run = classifier.config
    told = make_labelled(sentences, classifier.tokenizer, run.classes, run.batch.max_length).report
    if told:
        warn(f"{name}: {told}")


def say(console: Console, report: ClassificationReport) -> None:
    """The figures of one set."""
    about = report.circumstances
    console.rule(Text(f"{about.system} on {about.data}, {about.split}: {about.sentences:,} sentences"), align="left")
    table = Table(box=box.SIMPLE_HEAD, padding=(0, 1, 0, 0), show_header=False)
    table.add_column(style="bold", no_wrap=True)
    table.add_column(justify="right", no_wrap=True)
    table.add_column(style="dim", overflow="fold")
    table.add_row("accuracy", f"{report.accuracy:.2%}", "")
    table.add_row("macro F1", f"{report.macro_f1:.4f}", "mean over the classes")
    if report.log_loss is not None:
        table.add_row("log-loss", f"{report.log_loss:.4f}", "nats a sentence, of classes that training saw")
    if report.overlap is not None:
        told = "mean cosine between two rows of attention: 0 where they share no word"
        table.add_row("overlap", f"{report.overlap.cosine:.3f}", told)
        table.add_row("||AA^T - I||^2", f"{report.overlap.penalty:.3f}", "what the penalty holds down")
    console.print(table)
    if len(report.classes) <= WIDEST:
        console.print(confusion_table(report))


def confusion_table(report: ClassificationReport) -> Table:
    """A row for what is true, a column for what was said; classes that training never saw come last."""
    table = Table(box=box.SIMPLE_HEAD, padding=(0, 1, 0, 0))
    table.add_column("true \\ said", overflow="fold")
    for quality in report.classes:
        table.add_column(Text(quality.label), justify="right", overflow="fold")
    table.add_column("F1", justify="right")
    scores = {quality.label: quality.f1 for quality in report.classes}
    for row in (*report.confusion, *report.unseen):
        score = scores.get(row.label)
        told = "never seen" if row.label not in scores else "" if score is None else f"{score:.3f}"
        table.add_row(Text(row.label), *map(str, row.counts), told)
    return table
