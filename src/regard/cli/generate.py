"""`regard generate`: a language model continues a prompt.

Prompts come from --prompt, or as lines of standard input. The output is the prompt with its continuation.
"""

import json
import sys
from pathlib import Path
from typing import Annotated, Any

import typer

from regard.cli.streams import UnknownTokens, read_input, warn
from regard.tasks import check_texts, load_as
from regard.tasks.language_modeling import Continuation, TextGenerator

Folder = Annotated[Path, typer.Argument(help="Folder of a language model, written by `regard train`.")]
Prompts = Annotated[list[str] | None, typer.Option("--prompt", help="Text to continue; may be repeated.")]
MaxTokens = Annotated[int, typer.Option(help="Number of tokens of a continuation.")]
Temperature = Annotated[float, typer.Option(help="Above 1 more varied, below 1 less; 0 takes the most probable token.")]
TopK = Annotated[int | None, typer.Option(help="Sample from the k most probable tokens.")]
TopP = Annotated[
    float | None, typer.Option(help="Sample from the most probable tokens that together have probability top-p.")
]
MinP = Annotated[
    float | None, typer.Option(help="Keep tokens with probability >= min-p x that of the most probable token.")
]
RepetitionPenalty = Annotated[float, typer.Option(help="Above 1: tokens that occurred before become less probable.")]
Seed = Annotated[int, typer.Option(help="The same seed gives the same samples.")]
Stop = Annotated[list[str] | None, typer.Option("--stop", help=r"End before this text, such as \n; may be repeated.")]
Streaming = Annotated[
    bool, typer.Option("--stream", help="Print each token as soon as it is generated; for one prompt.")
]
AsJson = Annotated[bool, typer.Option("--json", help="Print one JSON object per prompt.")]
Fused = Annotated[bool, typer.Option("--fused/--no-fused", help="Decode with the model's fused code.")]
Device = Annotated[str, typer.Option(help="auto, cpu, cuda, cuda:1 or mps.")]


def generate(
    folder: Folder,
    *,
    prompts: Prompts = None,
    max_tokens: MaxTokens = 200,
    temperature: Temperature = 1.0,
    top_k: TopK = None,
    top_p: TopP = None,
    min_p: MinP = None,
    repetition_penalty: RepetitionPenalty = 1.0,
    seed: Seed = 0,
    stop: Stop = None,
    streaming: Streaming = False,
    as_json: AsJson = False,
    fused: Fused = True,
    device: Device = "auto",
) -> None:
    generator = load_as("generate", folder, device=device, fused=fused)
    texts = prompts if prompts is not None else list(read_input())
    # the shell passes \n as two characters
    ends = tuple(text.replace("\\n", "\n").replace("\\t", "\t") for text in stop or ())
    options: dict[str, Any] = {
        "max_tokens": max_tokens,
        "temperature": temperature,
        "top_k": top_k,
        "top_p": top_p,
        "min_p": min_p,
        "repetition_penalty": repetition_penalty,
        "seed": seed,
    }
    # tokens of several texts would be interleaved on the screen
    if streaming and (len(texts) != 1 or as_json):
        raise ValueError("--stream prints the tokens of one text: give one prompt, and leave out --json.")
    check_texts(texts, "prompts")
    # before the first token, so that no warning appears in the middle of the text
    warn_of_prompts(generator, texts, UnknownTokens(folder))
    if streaming:
        tokens = generator.stream(texts, stop=ends, **options)
        sys.stdout.write(texts[0])
        for token in tokens:
            sys.stdout.write(token.text)
            # the buffer of the stream would delay the tokens
            sys.stdout.flush()
        sys.stdout.write("\n")
        return
    for number, continuation in enumerate(generator.generate(texts, stop=ends, **options)):
        write(continuation, number, as_json=as_json)


def warn_of_prompts(generator: TextGenerator, prompts: list[str], unknown_tokens: UnknownTokens) -> None:
    """Warn of unknown tokens and of prompts beyond the context."""
    context = getattr(generator.run.model, "context", None)
    for number, prompt in enumerate(prompts, start=1):
        unknown_tokens.add(f"prompt {number}", generator.unknown_in(prompt))
        length = len(generator.encode(prompt))
        # the model itself drops the beginning of a longer prompt
        if context is not None and length > context:
            warn(
                f"prompt {number} has {length:,} tokens and the context of the model is {context}: only the last "
                f"{context} are used."
            )
    unknown_tokens.close()


def write(continuation: Continuation, number: int, *, as_json: bool) -> None:
    """One text, with an empty line before all but the first, or one JSON object."""
    if as_json:
        fields = {
            "prompt": continuation.prompt,
            "text": continuation.text,
            "ended": continuation.ended,
            "tokens": list(continuation.tokens),
            "log_probs": list(continuation.log_probs),
        }
        sys.stdout.write(json.dumps(fields, ensure_ascii=False) + "\n")
    else:
        sys.stdout.write(("\n" if number else "") + str(continuation) + "\n")
