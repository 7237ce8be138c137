"""`regard demo`: three models learn to translate dates, to show what attention is for.

Seq2Seq encodes the source in one state, Bahdanau's decoder attends to all source states, the Transformer consists of
attention. The three have similar numbers of parameters, the same training dates, and test dates from outside them. A
demo that was interrupted continues when the command is given again.
"""

from collections.abc import Sequence
from dataclasses import dataclass
from functools import partial
from pathlib import Path
from typing import Annotated, Any

import typer
from rich import box
from rich.console import Console
from rich.table import Table
from rich.text import Text

from regard._utils import DEMO_SYSTEMS, override, save_last_demo, write_text
from regard.checkpoint import RunFolder
from regard.cli.train import INTERRUPTED, speed_of
from regard.contracts import Predictor
from regard.data.text import Pair
from regard.display import has_matplotlib, show
from regard.metrics import by_length, exact_match
from regard.models.translation import TRANSLATION_MODELS
from regard.recipes import make_run
from regard.tasks import TrainedModel, count_parameters, fit, steps_of, write_report
from regard.training import Interrupted

QUICK_STEPS = {"seq2seq": 600, "bahdanau": 280, "transformer": 340}
QUICK_TOKENS = 1024
EDGES = (15, 30, 45)
TITLE = "exact matches in %: of all dates, and by the length of the source in letters"
MAX_LETTERS = 34
"""Source letters whose heat map fits 80 columns."""

DRAWN_SYSTEM, REPORT = "bahdanau", "test-beam-1"


@dataclass(frozen=True, kw_only=True)
class DemoSystem:
    """A trained system and its translations of the test."""

    name: str
    fitted: TrainedModel
    translations: tuple[str, ...]


def demo(
    out: Annotated[Path, typer.Option(help="Folder for the models and pictures.")] = Path("demo"),
    quick: Annotated[bool, typer.Option("--quick", help="Train for under a minute, with lower quality.")] = False,
    seed: Annotated[int, typer.Option(help="The same seed gives the same numbers.")] = 0,
    overwrite: Annotated[bool, typer.Option("--overwrite", help="Overwrite an earlier demo.")] = False,
) -> None:
    console = Console()
    pictures = picture_files(out)
    # before the training, which takes minutes
    is_resumed = check_demo(out, pictures, overwrite=overwrite)
    console.print("English dates to Chinese, character by character; the test dates are not in the training data.\n")
    test: Sequence[Pair] = ()
    systems = []
    for name in DEMO_SYSTEMS:
        console.print(Text(f"{TRANSLATION_MODELS[name].title} ({TRANSLATION_MODELS[name].year})", style="bold"))
        run = plan(name, quick=quick, seed=seed)
        # the same for all systems, which have the same seed of the data
        test = run.data.read("test")
        try:
            # a system whose training has not begun has nothing to resume
            resume = is_resumed and RunFolder(out / name).config.exists()
            fitted = fit(run, out / name, resume=resume, overwrite=overwrite, console=console)
        except Interrupted as interrupted:
            without = " without --overwrite" if overwrite else ""
            console.print(
                f"Training stopped after step {interrupted.step} and is saved. Give the same command again{without} to "
                f"continue."
            )
            raise typer.Exit(INTERRUPTED) from None
        # greedy, as in the report below
        translations = fitted.system.predict([pair.source for pair in test], beam=1)
        save_report(fitted.system, test, out / name)
        systems.append(DemoSystem(name=name, fitted=fitted, translations=tuple(map(str, translations))))
    console.print(comparison_table(systems, test))
    predictor = next(system.fitted.system for system in systems if system.name == DRAWN_SYSTEM)
    # the longest source that fits
    text = max((pair.source for pair in test if len(pair.source) <= MAX_LETTERS), key=len)
    draw_attention(console, predictor, text, pictures, overwrite=overwrite or is_resumed)
    save_last_demo(out)
    suggest_commands(console, out)


def plan(name: str, *, quick: bool, seed: int) -> Any:
    """The run of one system; a quick one has texts of one date, smaller batches and a smaller test."""
    run = make_run("dates", name, steps=QUICK_STEPS[name] if quick else None)
    # batches and data have seeds of their own
    run = override(run, f"training.seed={seed}", f"batch.seed={seed}", f"data.seed={seed}")
    if not quick:
        return run
    # once, at the end: validations take a large share of a short training
    validate_once = f"training.every.validate={run.training.steps}"
    small_batches = f"batch.tokens={min(run.batch.tokens, QUICK_TOKENS)}"
    return override(
        run, validate_once, small_batches, "data.content.max_dates=1", "data.held_out=300", "validation.sentences=0"
    )


def save_report(predictor: Predictor, test: Sequence[Pair], folder: Path) -> None:
    """Write the file that `regard evaluate` writes; the studio compares systems by it."""
    report = predictor.evaluate(test, split="test", beam=1, steps=steps_of(folder))
    write_text(RunFolder(folder).evaluation(REPORT), write_report(report))


def picture_files(out: Path) -> list[Path]:
    """The files of the attention map: PNG and SVG need matplotlib."""
    formats = ("html", "png", "svg") if has_matplotlib() else ("html",)
    return [out / f"alignment.{suffix}" for suffix in formats]


def check_demo(out: Path, pictures: list[Path], *, overwrite: bool) -> bool:
    """True if an interrupted demo is to be continued; a complete one is refused before any training, not after it."""
    folders = [RunFolder(out / name) for name in DEMO_SYSTEMS]
    existing = [path for path in (*(folder.folder for folder in folders), *pictures) if path.exists()]
    if overwrite or not existing:
        return False
    # weights are saved during the training, a report after it, and the pictures are drawn last
    results = [*(folder.evaluation(REPORT) for folder in folders), *pictures]
    if all(path.exists() for path in results) or not any(folder.config.exists() for folder in folders):
        raise ValueError(f"{existing[0]} exists. Choose another --out, or allow it with --overwrite.")
    return True


def comparison_table(systems: Sequence[DemoSystem], test: Sequence[Pair]) -> Table:
    """Exact matches, over all dates and by the length of the source."""
    table = Table(box=box.SIMPLE_HEAD, padding=(0, 1, 0, 0), title=TITLE, title_justify="left")
    table.add_column("system", style="bold", no_wrap=True)
    references = [pair.target for pair in test]
    lengths = [len(pair.source) for pair in test]
    # references against themselves: only the counts of the buckets are used
    columns = [
        bucket for bucket in by_length(lengths, references, references, metric=exact_match, edges=EDGES) if bucket.count
    ]
    for name in ("all", *(bucket.label for bucket in columns), "parameters", "tokens/s"):
        table.add_column(name, justify="right", no_wrap=True)
    for system in systems:
        buckets = by_length(lengths, system.translations, references, metric=exact_match, edges=EDGES)
        table.add_row(
            TRANSLATION_MODELS[system.name].title,
            f"{100 * exact_match(system.translations, references):.1f}",
            # empty buckets have no column
            *(f"{100 * bucket.value:.1f}" for bucket in buckets if bucket.value is not None),
            f"{count_parameters(system.fitted.system.model):,}",
            f"{speed_of(system.fitted):,.0f}",
        )
    return table


def draw_attention(console: Console, predictor: Predictor, text: str, pictures: list[Path], *, overwrite: bool) -> None:
    """Print and write the attention map of one translation."""
    translation = predictor.predict([text], beam=1, return_weights=True)[0]
    assert translation.weights is not None
    console.print(
        Text(f"{TRANSLATION_MODELS[DRAWN_SYSTEM].title} translates {text} to {translation.text}", style="bold")
    )
    draw = partial(
        show,
        translation.weights,
        query_tokens=translation.tokens,
        key_tokens=translation.source_tokens,
        axes=("target", "source"),
    )
    draw()
    for path in pictures:
        draw(title=f"{text} → {translation.text}", file=path, overwrite=overwrite)
    console.print(Text("  ".join(map(str, pictures)), style="dim", overflow="fold"))
    if not has_matplotlib():
        console.print("No PNG and SVG: matplotlib is not installed (pip install matplotlib).", style="yellow")


def suggest_commands(console: Console, out: Path) -> None:
    console.print("\nTry:", style="bold")
    for command in (
        "regard studio",
        f"echo 'July 20, 1969' | regard translate {out / DRAWN_SYSTEM} --alignments",
        f"regard evaluate {out / 'transformer'} --split test",
        "regard train reverse --model luong --out runs/reverse",
        "regard list models",
    ):
        console.print(Text(f"  {command}"), soft_wrap=True)
