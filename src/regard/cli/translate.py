"""`regard translate`: lines in, lines out; line n of the answer belongs to line n of the question.

An empty line stays empty. Lines are translated in batches as they come, from a terminal one by one. With --n-best, a
line becomes so many, each `number ||| text ||| score`, the number counted from 0. With --alignments, links follow after
a tab: source-target, words counted from 0, or characters where the model reads characters.
"""

import sys
from collections.abc import Iterable, Iterator
from itertools import islice
from pathlib import Path
from typing import Annotated

import typer

from regard.cli.streams import read_input, warn
from regard.contracts import Search
from regard.decoding import Sampling
from regard.display import checked_file, show
from regard.metrics import to_pharaoh
from regard.tasks import entry_of, load_as
from regard.tasks.translation import Translation, make_search, truncation_warning

LINES_AT_ONCE = 256


def translate(
    folder: Annotated[Path, typer.Argument(help="What `regard train` wrote.")],
    *,
    beam: Annotated[int, typer.Option(min=1, help="Hypotheses that the search keeps; 1 is greedy.")] = 5,
    num_best: Annotated[int, typer.Option("--n-best", min=1, help="Answers for each line.")] = 1,
    sample: Annotated[bool, typer.Option("--sample", help="Draw the answer at random.")] = False,
    temperature: Annotated[float, typer.Option(help="Above 1 more varied, below 1 less.")] = 1.0,
    seed: Annotated[int, typer.Option(help="The same seed draws the same.")] = 0,
    alignments: Annotated[bool, typer.Option("--alignments", help="Add links 0-0 1-2 after a tab.")] = False,
    attention: Annotated[
        Path | None, typer.Option(help="Draw the first line's attention: .html, .png, .svg or .pdf.")
    ] = None,
    overwrite: Annotated[bool, typer.Option("--overwrite", help="Write over the picture.")] = False,
    fused: Annotated[bool, typer.Option("--fused/--no-fused", help="Decode with the fused code of a model.")] = True,
    device: Annotated[str, typer.Option(help="auto, cpu, cuda, cuda:1 or mps.")] = "auto",
) -> None:
    """Translate lines from standard input to standard output."""
    if attention is not None:
        checked_file(attention, overwrite=overwrite)
    if sample and num_best > 1:
        raise ValueError("a line has one sample. Leave out --n-best, or sample again with another --seed.")
    translator = load_as("translate", folder, device=device, fused=fused)
    if (alignments or attention is not None) and not entry_of(translator.run).attends:
        raise ValueError(
            f"{translator.run.model_name} does not attend, so it has no alignments. Choose a model that does, such as "
            f"bahdanau."
        )
    if not sample and not 1 <= num_best <= beam:
        raise ValueError(f"--n-best is {num_best}, but the beam looks for {beam}. Widen it: --beam {max(num_best, 1)}.")
    search: Search = Sampling(temperature=temperature, seed=seed) if sample else make_search(beam, num_best)
    first = 0
    for lines in blocks(read_input(), 1 if sys.stdin.isatty() else LINES_AT_ONCE):
        attends = alignments or attention is not None
        found = translator.predict(lines, search=search, return_weights=attends, first=first)
        for number, translation in enumerate(found, start=first):
            write(translation, number, num_best=num_best, alignments=alignments)
        sys.stdout.flush()
        if attention is not None:
            draw(found, attention, overwrite=overwrite)
            attention = None
        first += len(lines)


def blocks(lines: Iterable[str], count: int) -> Iterator[list[str]]:
    """So many lines at a time."""
    rest = iter(lines)
    while block := list(islice(rest, count)):
        yield block


def write(translation: Translation, number: int, *, num_best: int, alignments: bool) -> None:
    """One line, or the best of it."""
    if translation.num_dropped:
        said = truncation_warning(f"line {number + 1}", translation.num_dropped)
        warn(said)
    for one in (translation, *translation.alternatives):
        linked = f"\t{to_pharaoh(one.links or ())}" if alignments else ""
        text = one.text if num_best == 1 else f"{number} ||| {one.text} ||| {one.score:.4f}"
        sys.stdout.write(f"{text}{linked}\n")


def draw(found: list[Translation], file: Path, *, overwrite: bool) -> None:
    """Where the model looked for the first line that is not empty."""
    drawn = next((one for one in found if one.weights is not None), None)
    if drawn is None or drawn.weights is None:
        raise ValueError("there is no line to draw the attention of. Give a line that is not empty.")
    show(
        drawn.weights,
        query_tokens=drawn.tokens,
        key_tokens=drawn.source_tokens,
        axes=("target", "source"),
        file=file,
        overwrite=overwrite,
    )
