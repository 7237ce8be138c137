"""Where all commands meet: each is a function in a file of its own, named here.

What the user got wrong is one sentence and exit code 2; `--debug`, anywhere on the line, shows where it was raised.
"""

import io
import os
import sys
from collections.abc import Sequence
from pathlib import Path
from typing import Annotated, NoReturn

import typer
from rich.console import Console

import regard
from regard.cli.classify import classify
from regard.cli.demo import demo
from regard.cli.evaluate import evaluate_folder
from regard.cli.experiment import experiment
from regard.cli.generate import generate
from regard.cli.list import list_mechanisms
from regard.cli.score import score
from regard.cli.studio import studio
from regard.cli.train import train
from regard.cli.translate import translate

app = typer.Typer(
    help="All of attention: every mechanism, systems to train, and what is claimed of them put to the test.",
    no_args_is_help=True,
    add_completion=False,
    pretty_exceptions_enable=False,
)
app.command("demo")(demo)
app.command("train")(train)
app.command("evaluate")(evaluate_folder)
app.command("translate")(translate)
app.command("generate")(generate)
app.command("classify")(classify)
app.command("score")(score)
app.command("list")(list_mechanisms)
app.command("experiment")(experiment)
app.command("studio")(studio)


def say_version(asked: bool) -> bool:
    """Print the version and stop, if asked."""
    if asked:
        Console().print(f"regard {regard.__version__}", highlight=False)
        raise typer.Exit
    return asked


@app.callback()
def root(
    version: Annotated[
        bool, typer.Option("--version", callback=say_version, is_eager=True, help="Print the version.")
    ] = False,
    debug: Annotated[bool, typer.Option("--debug", help="Show where an error was raised.")] = False,
) -> None:
    """Options of the command itself; `main` reads --debug before anything runs."""


def main(arguments: Sequence[str] | None = None) -> None:
    """Run the command line; errors of the user's making are sentences."""
    given = list(sys.argv[1:] if arguments is None else arguments)
    debug = "--debug" in given
    # a stream that was closed before the start is one that is empty, or that nobody reads
    for name, mode in (("stdin", "r"), ("stdout", "w"), ("stderr", "w")):
        if getattr(sys, name) is None:
            setattr(sys, name, Path(os.devnull).open(mode, encoding="utf-8"))  # noqa: SIM115
    # a terminal without ± still gets its table
    for stream in (sys.stdout, sys.stderr):
        if isinstance(stream, io.TextIOWrapper):
            stream.reconfigure(errors="replace")
    try:
        app(args=[word for word in given if word != "--debug"], prog_name="regard")
    except (ValueError, ImportError, OSError) as error:
        if debug:
            raise
        fail(str(error))
    except (MemoryError, RuntimeError) as error:
        if debug or not is_memory_full(error):
            raise
        told = (str(error).splitlines() or [""])[0]
        fail(f"the memory is full ({told}). Take fewer rows at once, shorter texts, or a smaller model.")


def is_memory_full(error: Exception) -> bool:
    """Whether there was no more memory; on a CPU torch says so in words alone."""
    return isinstance(error, MemoryError) or any(
        said in str(error) for said in ("out of memory", "can't allocate memory", "not enough memory")
    )


def fail(sentence: str) -> NoReturn:
    """Say what is wrong and stop."""
    Console(stderr=True, soft_wrap=True).print(f"Error: {sentence}", style="red", markup=False, highlight=False)
    sys.exit(2)
