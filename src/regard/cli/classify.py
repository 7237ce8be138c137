"""`regard classify`: the class of each input, and the words that the model attends to.

Sentences come as arguments, or as lines from standard input; an answer is `label<TAB>probability<TAB>sentence`.
With --explain, every row of attention is shown over the words, brighter where its weight is larger.
"""

import json
import sys
from pathlib import Path
from typing import Annotated

import typer
from rich.console import Console
from rich.text import Text

from regard.cli.streams import named, read_input, warn
from regard.contracts import SPECIAL_TOKENS, UNK
from regard.tasks import load_as
from regard.tasks.text_classification import Classification

SHADES = ("", "on grey23", "on dark_orange3", "on orange3 bold", "on orange1 black bold")
"""Up to a twentieth, a tenth, a quarter, a half of the weight, and above."""
EDGES = (0.05, 0.1, 0.25, 0.5)


def classify(
    folder: Annotated[Path, typer.Argument(help="What `regard train` wrote of a classifier.")],
    texts: Annotated[list[str] | None, typer.Argument(help="Sentences; without any, lines of the input.")] = None,
    *,
    explain: Annotated[bool, typer.Option("--explain", help="Show the rows of attention over the words.")] = False,
    as_json: Annotated[bool, typer.Option("--json", help="One JSON object a sentence.")] = False,
    device: Annotated[str, typer.Option(help="auto, cpu, cuda, cuda:1 or mps.")] = "auto",
) -> None:
    """Say of which class each sentence is."""
    classifier = load_as("classify", folder, device=device)
    given = texts or list(read_input())
    console = Console(soft_wrap=True, highlight=False)
    answers = zip(given, classifier.predict(given, return_weights=explain), strict=True)
    for number, (text, found) in enumerate(answers, start=1):
        warn_of_sentence(number, found)
        if as_json:
            sys.stdout.write(json.dumps(plain(text, found), ensure_ascii=False) + "\n")
        elif explain:
            show(console, text, found)
        else:
            sys.stdout.write(f"{found.label}\t{found.probability:.4f}\t{text}\n")


def warn_of_sentence(number: int, found: Classification) -> None:
    """Say what of a sentence was not read, and where nothing of it could be."""
    if found.num_dropped:
        warn(f"the last {found.num_dropped:,} tokens of sentence {number} were not read.")
    if found.tokens and all(token == SPECIAL_TOKENS[UNK] for token in found.tokens):
        warn(f"sentence {number} has no word that the vocabulary knows: all were read as <unk>.")
    elif found.unknown:
        warn(f"sentence {number} has {named(found.unknown)}, which the vocabulary does not know: read as <unk>.")


def plain(text: str, found: Classification) -> dict[str, object]:
    """An answer for programs."""
    told: dict[str, object] = {
        "text": text,
        "label": found.label,
        "probability": found.probability,
        "probabilities": found.probabilities,
        "tokens": list(found.tokens),
        "unknown": list(found.unknown),
    }
    return told if found.weights is None else {**told, "weights": found.weights.tolist()}


def show(console: Console, text: str, found: Classification) -> None:
    """An answer for people: the classes by probability, then each row of attention over the words."""
    best = sorted(found.probabilities.items(), key=lambda one: -one[1])
    console.print(Text(text, style="bold"))
    console.print(Text("  ".join(f"{label} {share:.1%}" for label, share in best[:6])))
    if found.unknown:
        console.print(Text(f"unknown to the vocabulary, read as <unk>: {', '.join(found.unknown)}", style="dim"))
    if found.weights is None:
        console.print(Text("This system has no rows of attention over its words.", style="dim"))
        return
    for number, row in enumerate(found.weights.tolist(), start=1):
        line = Text()
        line.append(f"{number:>3}  ", style="dim")
        for token, weight in zip(found.tokens, row, strict=True):
            line.append(token, style=SHADES[sum(weight > edge for edge in EDGES)])
            # what colours alone say is lost on paper and to some eyes
            line.append(f" {weight:.2f} " if weight > EDGES[1] else " ", style="dim")
        console.print(line)
