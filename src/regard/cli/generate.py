"""`regard generate`: a language model goes on with a prompt.

Prompts come from --prompt, or as lines from standard input. What is printed is the prompt and how it goes on.
"""

import json
import sys
from pathlib import Path
from typing import Annotated, Any

import typer

from regard.cli.streams import named, read_input, warn
from regard.tasks import check_texts, load_as
from regard.tasks.language_modeling import Continuation, TextGenerator


def generate(
    folder: Annotated[Path, typer.Argument(help="What `regard train` wrote of a language model.")],
    *,
    prompts: Annotated[list[str] | None, typer.Option("--prompt", help="Where to begin; may be repeated.")] = None,
    max_tokens: Annotated[int, typer.Option(help="Tokens of each continuation.")] = 200,
    temperature: Annotated[float, typer.Option(help="Above 1 more varied, below 1 less, 0 the best token.")] = 1.0,
    top_k: Annotated[int | None, typer.Option(help="Draw among the k best tokens.")] = None,
    top_p: Annotated[float | None, typer.Option(help="Draw among the best that hold so much probability.")] = None,
    min_p: Annotated[float | None, typer.Option(help="Draw among those of at least so much of the best's.")] = None,
    repetition_penalty: Annotated[float, typer.Option(help="Above 1: what was said becomes less likely.")] = 1.0,
    seed: Annotated[int, typer.Option(help="The same seed draws the same.")] = 0,
    stop: Annotated[
        list[str] | None, typer.Option("--stop", help=r"End before this text, such as \n; may be repeated.")
    ] = None,
    streaming: Annotated[bool, typer.Option("--stream", help="Print as it comes; for one prompt.")] = False,
    as_json: Annotated[bool, typer.Option("--json", help="One JSON object a prompt.")] = False,
    fused: Annotated[bool, typer.Option("--fused/--no-fused", help="Decode with the fused code of a model.")] = True,
    device: Annotated[str, typer.Option(help="auto, cpu, cuda, cuda:1 or mps.")] = "auto",
) -> None:
    """Go on with a text, token by token."""
    writer = load_as("generate", folder, device=device, fused=fused)
    given = prompts if prompts is not None else list(read_input())
    ends = tuple(word.replace("\\n", "\n").replace("\\t", "\t") for word in stop or ())
    options: dict[str, Any] = {
        "max_tokens": max_tokens,
        "temperature": temperature,
        "top_k": top_k,
        "top_p": top_p,
        "min_p": min_p,
        "repetition_penalty": repetition_penalty,
        "seed": seed,
    }
    if streaming and (len(given) != 1 or as_json):
        raise ValueError("--stream prints one text as it comes: give one prompt, and leave out --json.")
    check_texts(given, "prompts")
    warn_of_prompts(writer, given)
    if streaming:
        pieces = writer.stream(given, stop=ends, **options)
        sys.stdout.write(given[0])
        for piece in pieces:
            sys.stdout.write(piece.text)
            sys.stdout.flush()
        sys.stdout.write("\n")
        return
    for number, found in enumerate(writer.generate(given, stop=ends, **options)):
        say(found, number, as_json=as_json)


def warn_of_prompts(writer: TextGenerator, prompts: list[str]) -> None:
    """Say what of the prompts the model cannot read."""
    context = getattr(writer.run.model, "context", None)
    for number, prompt in enumerate(prompts, start=1):
        unknown = writer.unknown_in(prompt)
        if unknown:
            warn(f"prompt {number} has {named(unknown)}, which the vocabulary does not know: read as <unk>.")
        length = len(writer.encode(prompt))
        if context is not None and length > context:
            warn(
                f"prompt {number} has {length:,} tokens and the model looks back {context}: what goes on depends on "
                f"its end alone."
            )


def say(found: Continuation, number: int, *, as_json: bool) -> None:
    """One text, with an empty line before all but the first, or one object."""
    if as_json:
        told = {
            "prompt": found.prompt,
            "text": found.text,
            "ended": found.ended,
            "tokens": list(found.tokens),
            "log_probs": list(found.log_probs),
        }
        sys.stdout.write(json.dumps(told, ensure_ascii=False) + "\n")
    else:
        sys.stdout.write(("\n" if number else "") + str(found) + "\n")
