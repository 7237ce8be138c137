"""The command line: a table of commands, each a function in a file of its own.

A command's file is imported when the command runs. `regard --help` needs the table alone and imports no torch. A wrong
argument is one sentence and exit code 2; `--debug`, anywhere on the line, shows the traceback.
"""

import io
import os
import sys
import warnings
from collections.abc import Sequence
from importlib import import_module
from pathlib import Path
from typing import Annotated, Any, NoReturn

import typer
from rich.console import Console
from typer.core import TyperGroup

from regard._utils import VERSION
from regard.cli.streams import warn

COMMANDS = {
    "demo": ("regard.cli.demo:demo", "Train three models to translate dates, compare them and show their attention."),
    "train": ("regard.cli.train:train", "Train a model by a recipe. Ctrl-C saves it, and --resume continues."),
    "evaluate": (
        "regard.cli.evaluate:evaluate_folder",
        "Evaluate a model: BLEU and other metrics, perplexity, or accuracy and a confusion matrix.",
    ),
    "translate": ("regard.cli.translate:translate", "Translate lines from standard input to standard output."),
    "generate": ("regard.cli.generate:generate", "Continue a text, token by token."),
    "classify": ("regard.cli.classify:classify", "Print the class of each sentence."),
    "score": ("regard.cli.score:score", "Print log p(output | input) for each line, or rescore an n-best list."),
    "list": (
        "regard.cli.list:list_mechanisms",
        "List mechanisms and models with year, formula and paper; tasks; recipes; experiments.",
    ),
    "experiment": (
        "regard.cli.experiment:experiment",
        "Test a claim about attention: a table, a figure and a verdict computed from the measurements.",
    ),
    "studio": (
        "regard.cli.studio:studio",
        "Open a local page on checkpoints: watch, compute, swap, compare, heads, runs, timeline, learn.",
    ),
}
"""Name -> where its function is, and its help text."""


def load_command(name: str) -> Any:
    """Import a command's function and wrap it with its options."""
    place, text = COMMANDS[name]
    module, function = place.split(":")
    single = typer.Typer(add_completion=False, pretty_exceptions_enable=False)
    single.command(name, help=text)(getattr(import_module(module), function))
    return typer.main.get_command(single)


class LazyGroup(TyperGroup):
    """Lists the commands of the table and imports the one that runs."""

    def resolve_command(self, ctx: Any, args: list[str]) -> Any:
        # the placeholder is replaced after click has found it by its name
        name, _, rest = super().resolve_command(ctx, args)
        return name, load_command(str(name)), rest


app = typer.Typer(
    cls=LazyGroup,
    help="All of attention: every mechanism, systems to train, and experiments that test what is claimed about them.",
    no_args_is_help=True,
    add_completion=False,
    pretty_exceptions_enable=False,
)


def unloaded() -> None:
    """Stands in for a command whose file is not imported."""


# placeholders have a name and a help text, which is all that --help needs
for command, (_, text) in COMMANDS.items():
    app.command(command, help=text)(unloaded)


def print_version(requested: bool) -> bool:
    """Print the version and exit, if requested."""
    if requested:
        Console().print(f"regard {VERSION}", highlight=False)
        raise typer.Exit
    return requested


@app.callback()
def root(
    version: Annotated[
        bool, typer.Option("--version", callback=print_version, is_eager=True, help="Print the version.")
    ] = False,
    debug: Annotated[bool, typer.Option("--debug", help="Show the traceback of an error.")] = False,
) -> None:
    """Options of the command itself; `main` reads --debug before anything runs."""


def main(arguments: Sequence[str] | None = None) -> None:
    """Run the command line; a user's mistake is printed as a sentence."""
    words = list(sys.argv[1:] if arguments is None else arguments)
    # read before the parsing, whose errors it affects
    debug = "--debug" in words
    # a stream that was closed before the start: read nothing from it, discard what is written to it
    for name, mode in (("stdin", "r"), ("stdout", "w"), ("stderr", "w")):
        if getattr(sys, name) is None:
            setattr(sys, name, Path(os.devnull).open(mode, encoding="utf-8"))  # noqa: SIM115
    # a terminal without ± still gets its table
    for stream in (sys.stdout, sys.stderr):
        if isinstance(stream, io.TextIOWrapper):
            stream.reconfigure(errors="replace")
    try:
        with warnings.catch_warnings():
            warnings.showwarning = show_warning
            # --debug may follow the command, where typer would refuse it
            app(args=[word for word in words if word != "--debug"], prog_name="regard")
    # errors with a message for the user; any other type is a defect and keeps its traceback
    except (ValueError, ImportError, OSError) as error:
        if debug:
            raise
        fail(str(error))
    # torch reports memory that is exhausted as RuntimeError
    except (MemoryError, RuntimeError) as error:
        if debug or not is_out_of_memory(error):
            raise
        reason = (str(error).splitlines() or [""])[0]
        fail(f"the memory is full ({reason}). Use smaller batches, shorter texts or a smaller model.")


def show_warning(message: Warning | str, category: type[Warning], *place: Any, **options: Any) -> None:
    """Print a warning of the library as one line, without the place in the code."""
    warn(str(message))


def is_out_of_memory(error: Exception) -> bool:
    """True if memory ran out; on a CPU torch reports that in the message only."""
    messages = ("out of memory", "can't allocate memory", "not enough memory")
    return isinstance(error, MemoryError) or any(message in str(error) for message in messages)


def fail(sentence: str) -> NoReturn:
    """Print an error and exit with code 2."""
    Console(stderr=True, soft_wrap=True).print(f"Error: {sentence}", style="red", markup=False, highlight=False)
    sys.exit(2)
