"""A tiny trained model that tests of recipes share."""

import pytest
from rich.console import Console

from regard.recipes import fit, make_run, override

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
