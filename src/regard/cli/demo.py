"""`regard demo`: three systems learn to read dates, and show what attention is for.

Seq2Seq keeps the whole source in one state, Bahdanau looks back at it, the Transformer does nothing else. All three
have about as many parameters, learn from the same dates, and are tested on dates that none has seen.
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
TITLE = "read without a mistake, %: all, and by letters in the source"
LONGEST_SHOWN = 34
"""Letters whose heat map is no wider than 80 columns."""

LOOKED_AT = "bahdanau"


@dataclass(frozen=True, kw_only=True)
class Learned:
    """A system after its training, and its answers to the test."""

    name: str
    fitted: TrainedModel
    answers: tuple[str, ...]


def demo(
    out: Annotated[Path, typer.Option(help="Folder for the models and pictures.")] = Path("demo"),
    quick: Annotated[bool, typer.Option("--quick", help="Under a minute; the systems learn less.")] = False,
    seed: Annotated[int, typer.Option(help="The same seed gives the same numbers.")] = 0,
    overwrite: Annotated[bool, typer.Option("--overwrite", help="Write over an earlier demo.")] = False,
) -> None:
    """Train three systems to read dates, compare them, and look at where they look."""
    console = Console()
    pictures = picture_files(out)
    check_demo(out, pictures, overwrite=overwrite)
    console.print("English dates to Chinese, character by character; tested on dates that no system has seen.\n")
    test: Sequence[Pair] = ()
    learned = []
    for name in DEMO_SYSTEMS:
        console.print(Text(f"{TRANSLATION_MODELS[name].title} ({TRANSLATION_MODELS[name].year})", style="bold"))
        run = plan(name, quick=quick, seed=seed)
        test = run.data.read("test")
        try:
            fitted = fit(run, out / name, overwrite=overwrite, console=console)
        except Interrupted:
            console.print("The demo is not finished. Begin it again with --overwrite.")
            raise typer.Exit(INTERRUPTED) from None
        answers = fitted.system.predict([pair.source for pair in test], beam=1)
        save_report(fitted.system, test, out / name)
        learned.append(Learned(name=name, fitted=fitted, answers=tuple(map(str, answers))))
    console.print(table_of(learned, test))
    looked = next(one for one in learned if one.name == LOOKED_AT)
    shown = max((pair.source for pair in test if len(pair.source) <= LONGEST_SHOWN), key=len)
    look(console, looked.fitted.system, shown, pictures, overwrite=overwrite)
    save_last_demo(out)
    suggest(console, out)


def plan(name: str, *, quick: bool, seed: int) -> Any:
    """The run of one system; in a hurry each text has one date, and fewer are tested."""
    run = make_run("dates", name, steps=QUICK_STEPS[name] if quick else None)
    run = override(run, f"training.seed={seed}", f"batch.seed={seed}", f"data.seed={seed}")
    if not quick:
        return run
    once = f"training.every.validate={run.training.steps}"
    small = f"batch.tokens={min(run.batch.tokens, QUICK_TOKENS)}"
    return override(run, once, small, "data.content.max_dates=1", "data.held_out=300", "validation.sentences=0")


def save_report(predictor: Predictor, test: Sequence[Pair], folder: Path) -> None:
    """The file that `regard evaluate` writes, from which the systems are compared later."""
    report = predictor.evaluate(test, split="test", beam=1, steps=steps_of(folder))
    write_text(RunFolder(folder).evaluation("test-beam-1"), write_report(report))


def picture_files(out: Path) -> list[Path]:
    """A page always; figures where matplotlib is."""
    kinds = ("html", "png", "svg") if has_matplotlib() else ("html",)
    return [out / f"alignment.{kind}" for kind in kinds]


def check_demo(out: Path, pictures: list[Path], *, overwrite: bool) -> None:
    """Refuse before the first minute is spent, not after the last."""
    taken = [path for path in (*(out / name for name in DEMO_SYSTEMS), *pictures) if path.exists()]
    if taken and not overwrite:
        raise ValueError(f"{taken[0]} exists. Choose another --out, or allow it with --overwrite.")


def table_of(learned: Sequence[Learned], test: Sequence[Pair]) -> Table:
    """Exact matches, in all and by the length of the source."""
    table = Table(box=box.SIMPLE_HEAD, padding=(0, 1, 0, 0), title=TITLE, title_justify="left")
    table.add_column("system", style="bold", no_wrap=True)
    references = [pair.target for pair in test]
    lengths = [len(pair.source) for pair in test]
    columns = [
        bucket for bucket in by_length(lengths, references, references, metric=exact_match, edges=EDGES) if bucket.count
    ]
    for name in ("all", *(bucket.label for bucket in columns), "parameters", "tokens/s"):
        table.add_column(name, justify="right", no_wrap=True)
    for one in learned:
        buckets = by_length(lengths, one.answers, references, metric=exact_match, edges=EDGES)
        table.add_row(
            TRANSLATION_MODELS[one.name].title,
            f"{100 * exact_match(one.answers, references):.1f}",
            *(f"{100 * bucket.value:.1f}" for bucket in buckets if bucket.value is not None),
            f"{count_parameters(one.fitted.system.model):,}",
            f"{speed_of(one.fitted):,.0f}",
        )
    return table


def look(console: Console, predictor: Predictor, text: str, pictures: list[Path], *, overwrite: bool) -> None:
    """Where each letter of one answer comes from."""
    answer = predictor.predict([text], beam=1, return_weights=True)[0]
    assert answer.weights is not None
    console.print(Text(f"{TRANSLATION_MODELS[LOOKED_AT].title} reads {text} as {answer.text}", style="bold"))
    draw = partial(
        show,
        answer.weights,
        query_tokens=answer.tokens,
        key_tokens=answer.source_tokens,
        axes=("target", "source"),
    )
    draw()
    for path in pictures:
        draw(file=path, overwrite=overwrite)
    console.print(Text("  ".join(map(str, pictures)), style="dim", overflow="fold"))
    if not has_matplotlib():
        console.print("No PNG and SVG: matplotlib is not installed (pip install matplotlib).", style="yellow")


def suggest(console: Console, out: Path) -> None:
    """What to try next."""
    console.print("\nTry:", style="bold")
    for command in (
        "regard studio",
        f"echo 'July 20, 1969' | regard translate {out / LOOKED_AT} --alignments",
        f"regard evaluate {out / 'transformer'} --split test",
        "regard train reverse --model luong --out runs/reverse",
        "regard list models",
    ):
        console.print(Text(f"  {command}"), soft_wrap=True)
