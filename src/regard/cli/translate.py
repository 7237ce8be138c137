"""`regard translate`: line n of the output is the translation of line n of the input.

An empty line stays empty. Lines are translated in batches, from a terminal one by one. With --num-best N, a line has N
translations, each `number ||| text ||| score`, the number counted from 0. With --alignments, links follow after a tab:
source-target, words counted from 0, or characters for a model of characters.
"""

import sys
from collections.abc import Iterable, Iterator
from itertools import islice
from pathlib import Path
from typing import Annotated

import typer

from regard.cli.streams import UnknownTokens, read_input, warn
from regard.contracts import Search
from regard.decoding import Sampling
from regard.display import checked_file, show
from regard.metrics import to_pharaoh
from regard.tasks import entry_of, load_as
from regard.tasks.translation import Translation, make_search, truncation_warning

BATCH_LINES = 256


def translate(
    folder: Annotated[Path, typer.Argument(help="Folder of a translation model, written by `regard train`.")],
    *,
    beam: Annotated[int, typer.Option(min=1, help="Beam width; 1 is greedy search.")] = 5,
    num_best: Annotated[int, typer.Option(min=1, help="Translations per line, best first.")] = 1,
    sample: Annotated[bool, typer.Option("--sample", help="Sample the translation instead of searching.")] = False,
    temperature: Annotated[float, typer.Option(help="Above 1 more varied, below 1 less.")] = 1.0,
    seed: Annotated[int, typer.Option(help="The same seed gives the same samples.")] = 0,
    alignments: Annotated[bool, typer.Option("--alignments", help="Append links such as 0-0 1-2 after a tab.")] = False,
    attention: Annotated[
        Path | None, typer.Option(help="Draw the attention of the first line: .html, .png, .svg or .pdf.")
    ] = None,
    overwrite: Annotated[bool, typer.Option("--overwrite", help="Overwrite the file of --attention.")] = False,
    fused: Annotated[bool, typer.Option("--fused/--no-fused", help="Decode with the model's fused code.")] = True,
    device: Annotated[str, typer.Option(help="auto, cpu, cuda, cuda:1 or mps.")] = "auto",
) -> None:
    if attention is not None:
        # before the model is loaded, and not after the translation
        checked_file(attention, overwrite=overwrite)
    if sample and num_best > 1:
        raise ValueError("a line has one sample. Leave out --num-best, or sample again with another --seed.")
    translator = load_as("translate", folder, device=device, fused=fused)
    if (alignments or attention is not None) and not entry_of(translator.run).attends:
        raise ValueError(
            f"{translator.run.model_name} does not attend, so it has no alignments. Choose a model that does, such as "
            f"bahdanau."
        )
    if not sample and num_best > beam:
        raise ValueError(f"--num-best is {num_best}, but the beam has {beam} hypotheses. Widen it: --beam {num_best}.")
    search: Search = Sampling(temperature=temperature, seed=seed) if sample else make_search(beam, num_best)
    first, unknown_tokens = 0, UnknownTokens(folder)
    # at a terminal each line is answered before the next is typed
    for lines in batches(read_input(), 1 if sys.stdin.isatty() else BATCH_LINES):
        return_weights = alignments or attention is not None
        translations = translator.predict(lines, search=search, return_weights=return_weights, first=first)
        for number, translation in enumerate(translations, start=first):
            unknown_tokens.add(f"line {number + 1}", translation.unknown)
            write(translation, number, num_best=num_best, alignments=alignments)
        # a program at the other end of a pipe gets its lines at once
        sys.stdout.flush()
        if attention is not None:
            draw(lines, translations, attention, overwrite=overwrite)
            # the first block only
            attention = None
        first += len(lines)
    unknown_tokens.close()


def batches(lines: Iterable[str], size: int) -> Iterator[list[str]]:
    # one iterator, so that islice continues where the last batch ended
    rest = iter(lines)
    while batch := list(islice(rest, size)):
        yield batch


def write(translation: Translation, number: int, *, num_best: int, alignments: bool) -> None:
    """Print the translation of a line, or its n best."""
    if translation.num_dropped:
        warn(truncation_warning(f"line {number + 1}", translation.num_dropped))
    for hypothesis in (translation, *translation.alternatives):
        links = f"\t{to_pharaoh(hypothesis.links or ())}" if alignments else ""
        text = hypothesis.text if num_best == 1 else f"{number} ||| {hypothesis.text} ||| {hypothesis.score:.4f}"
        sys.stdout.write(f"{text}{links}\n")


def draw(lines: list[str], translations: list[Translation], file: Path, *, overwrite: bool) -> None:
    """Write the attention of the first line that is not empty."""
    pairs = zip(lines, translations, strict=True)
    source, first = next((pair for pair in pairs if pair[1].weights is not None), ("", None))
    if first is None or first.weights is None:
        raise ValueError("there is no line to draw the attention of. Give a line that is not empty.")
    show(
        first.weights,
        query_tokens=first.tokens,
        key_tokens=first.source_tokens,
        axes=("target", "source"),
        title=f"{source} → {first.text}",
        file=file,
        overwrite=overwrite,
    )
