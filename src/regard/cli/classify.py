"""`regard classify`: the class of each sentence, and the words that the model attends to.

Sentences are arguments or lines of standard input; an answer is `class<TAB>probability<TAB>sentence`, where the class
is its name if one is known, or else its label. With --explain, every query row of attention is printed over the words,
brighter where its weight is larger.
"""

import json
import sys
from pathlib import Path
from typing import Annotated

import typer
from rich.console import Console
from rich.text import Text

from regard.cli.streams import UnknownTokens, read_input, warn
from regard.contracts import SPECIAL_TOKENS, UNK
from regard.tasks import load_as
from regard.tasks.text_classification import Classification

SHADES = ("", "on grey23", "on dark_orange3", "on orange3 bold", "on orange1 black bold")
EDGES = (0.05, 0.1, 0.25, 0.5)
"""A weight above n of these edges has shade n."""


def classify(
    folder: Annotated[Path, typer.Argument(help="Folder of a classifier, written by `regard train`.")],
    texts: Annotated[list[str] | None, typer.Argument(help="Sentences (default: lines of standard input).")] = None,
    *,
    explain: Annotated[bool, typer.Option("--explain", help="Show the rows of attention over the words.")] = False,
    as_json: Annotated[bool, typer.Option("--json", help="Print one JSON object per sentence.")] = False,
    device: Annotated[str, typer.Option(help="auto, cpu, cuda, cuda:1 or mps.")] = "auto",
) -> None:
    classifier = load_as("classify", folder, device=device)
    # all lines at once, because sentences are classified in batches
    sentences = texts or list(read_input())
    console, unknown_tokens = Console(soft_wrap=True, highlight=False), UnknownTokens(folder)
    results = zip(sentences, classifier.predict(sentences, return_weights=explain), strict=True)
    for number, (text, result) in enumerate(results, start=1):
        warn_of_sentence(number, result, unknown_tokens)
        if as_json:
            # not through rich, which would wrap the line and interpret brackets
            sys.stdout.write(json.dumps(to_json(text, result), ensure_ascii=False) + "\n")
        elif explain:
            print_rows(console, text, result)
        else:
            sys.stdout.write(f"{result.name}\t{result.probability:.4f}\t{text}\n")
    unknown_tokens.close()


def warn_of_sentence(number: int, result: Classification, unknown_tokens: UnknownTokens) -> None:
    """Warn of tokens that were cut off and of words outside the vocabulary."""
    if result.num_dropped:
        warn(f"the last {result.num_dropped:,} tokens of sentence {number} were not read.")
    is_all = all(token == SPECIAL_TOKENS[UNK] for token in result.tokens)
    unknown_tokens.add(f"sentence {number}", result.unknown, is_all=is_all)


def to_json(text: str, result: Classification) -> dict[str, object]:
    fields: dict[str, object] = {
        "text": text,
        "label": result.label,
        "name": result.name,
        "probability": result.probability,
        "probabilities": result.probabilities,
        "tokens": list(result.tokens),
        "unknown": list(result.unknown),
    }
    return fields if result.weights is None else {**fields, "weights": result.weights.tolist()}


def print_rows(console: Console, text: str, result: Classification) -> None:
    """The classes by probability, then each query row of attention over the words."""
    classes = sorted(result.probabilities.items(), key=lambda item: -item[1])
    # Text, because a string with brackets would be markup
    console.print(Text(text, style="bold"))
    # as many as fit one line
    console.print(Text("  ".join(f"{result.names.get(label, label)} {share:.1%}" for label, share in classes[:6])))
    if result.unknown:
        console.print(Text(f"not in the vocabulary, read as <unk>: {', '.join(result.unknown)}", style="dim"))
    if result.weights is None:
        console.print(Text("This system has no rows of attention over its words.", style="dim"))
        return
    for number, row in enumerate(result.weights.tolist(), start=1):
        line = Text()
        line.append(f"{number:>3}  ", style="dim")
        for token, weight in zip(result.tokens, row, strict=True):
            line.append(token, style=SHADES[sum(weight > edge for edge in EDGES)])
            # the number too: colours are lost on paper, and not everyone can distinguish them
            line.append(f" {weight:.2f} " if weight > EDGES[1] else " ", style="dim")
        console.print(line)
