"""Models that were trained for a few steps, one or two a task."""

import pytest
from rich.console import Console

from regard import load
from regard._utils import override
from regard.recipes import make_run
from regard.tasks import fit
from tests.small_models import train_small_models

DATES = (
    "data.count=64", "data.held_out=8", "data.content.max_dates=1", "training.every.validate=2",
    "validation.sentences=0",
)  # fmt: skip


@pytest.fixture(scope="session")
def folder(tmp_path_factory):
    root = tmp_path_factory.mktemp("tasks") / "runs"
    root.mkdir()
    train_small_models(root, ("lstmn", "gpt", "cnn", "structured_self_attention"), steps=2)
    for name in ("bahdanau", "transformer", "seq2seq"):
        fit(override(make_run("dates", name, steps=2), *DATES), root / name, console=Console(quiet=True))
    return root


@pytest.fixture(scope="session")
def predictor(folder):
    """A predictor by the name of its model."""
    loaded = {}

    def by_name(name):
        if name not in loaded:
            loaded[name] = load(folder / name, device="cpu")
        return loaded[name]

    return by_name


TINY = (
    "data.content.alphabet=abcd",
    "data.content.max_length=5",
    "data.count=64",
    "data.held_out=8",
    "training.steps=4",
    "training.every.validate=2",
    "model.embedding_size=8",
    "model.hidden_size=8",
    "model.alignment_size=8",
    "model.maxout_size=8",
)


@pytest.fixture(scope="session")
def tiny_run():
    return override(make_run("copy", "bahdanau"), *TINY)


@pytest.fixture(scope="session")
def fitted(tiny_run, tmp_path_factory):
    return fit(tiny_run, tmp_path_factory.mktemp("runs") / "tiny", console=Console(quiet=True))
