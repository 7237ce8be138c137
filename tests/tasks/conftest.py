"""Models that were trained for a few steps, one or two a task."""

import pytest
from rich.console import Console

from regard import load
from regard.recipes import fit, make_run, override
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
