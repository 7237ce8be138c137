"""What tests of commands share: a tiny trained model, and a way to run a command."""

import io
import sys

import pytest
from rich.console import Console

from regard.cli import main
from regard.recipes import fit, make_run, override

SIZES = ("embedding_size", "hidden_size", "alignment_size", "maxout_size")
TINY = (
    "data.content.alphabet=abcd",
    "data.content.max_length=5",
    "data.count=64",
    "data.held_out=8",
    "training.steps=4",
    "training.every.validate=2",
    *(f"model.{name}=8" for name in SIZES),
)


@pytest.fixture(scope="session")
def trained(tmp_path_factory):
    """The folder of a model that copies letters, badly."""
    folder = tmp_path_factory.mktemp("runs") / "tiny"
    fit(override(make_run("copy", "bahdanau"), *TINY), folder, console=Console(quiet=True))
    return folder


@pytest.fixture(autouse=True)
def _home(monkeypatch, tmp_path):
    """Whatever is remembered is forgotten."""
    monkeypatch.setenv("XDG_DATA_HOME", str(tmp_path / "home"))


@pytest.fixture
def command(monkeypatch):
    """Run a command with this standard input; its exit code."""

    def run(*arguments, stdin=b""):
        monkeypatch.setattr(sys, "stdin", io.TextIOWrapper(io.BytesIO(stdin)))
        with pytest.raises(SystemExit) as stopped:
            main([str(argument) for argument in arguments])
        return stopped.value.code

    return run
