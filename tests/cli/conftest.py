"""What tests of commands share: a tiny trained model of every task, and a way to run a command."""

import io
import sys
from dataclasses import fields

import pytest
from rich.console import Console

from regard._utils import override
from regard.cli import main
from regard.recipes import make_run
from regard.tasks import fit
from tests.recipes.texts import CPU, SENTENCES, TEXT, TINY_SENTENCES
from tests.recipes.texts import SIZES as TINY_WRITERS

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
    """The folder of a briefly trained model that copies letters."""
    folder = tmp_path_factory.mktemp("runs") / "tiny"
    fit(override(make_run("copy", "bahdanau"), *TINY), folder, console=Console(quiet=True))
    return folder


@pytest.fixture(scope="session")
def text_file(tmp_path_factory):
    """A synthetic text."""
    path = tmp_path_factory.mktemp("data") / "text.txt"
    path.write_text(TEXT)
    return path


@pytest.fixture(scope="session")
def writers(text_file, tmp_path_factory):
    """Folders of a briefly trained GPT and LSTM."""
    folders = {}
    for model in ("gpt", "lstm"):
        run = override(make_run("text", model, data=text_file, steps=4), *TINY_WRITERS[model], *CPU)
        folders[model] = fit(run, tmp_path_factory.mktemp("runs") / model, console=Console(quiet=True)).result.folder
    return folders


@pytest.fixture(scope="session")
def classifier(tmp_path_factory):
    """The folder of a briefly trained classifier that has rows of attention."""
    path = tmp_path_factory.mktemp("data") / "animals.all"
    path.write_text(SENTENCES)
    run = make_run("sentences", "structured_self_attention", data=path)
    has = {field.name for field in fields(run.model)}
    sizes = [f"model.{name}={value}" for name, value in TINY_SENTENCES.items() if name in has]
    run = override(run, *sizes, *CPU, "training.steps=4", "training.epochs=none", "batch.max_length=12")
    return fit(run, tmp_path_factory.mktemp("runs") / "classifier", console=Console(quiet=True)).result.folder


@pytest.fixture(autouse=True)
def _home(monkeypatch, tmp_path):
    """Clear all caches."""
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
