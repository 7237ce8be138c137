"""A config that asks for more than its weights is refused before anything is allocated, for every model."""

import json
import shutil
from pathlib import Path

import pytest

from regard.tasks import build as building
from regard.tasks import load

ROOT = Path(__file__).parents[1] / "checkpoints_0_1"
FOLDERS = sorted(path.parent for path in ROOT.glob("*/*/config.json"))
SIZES = [
    (folder, name)
    for folder in FOLDERS
    for name, value in json.loads((folder / "config.json").read_text())["model"].items()
    if type(value) is int
]


def change(folder, copy, **settings):
    """A copy of a folder with other settings of its model."""
    shutil.copytree(folder, copy, dirs_exist_ok=True)
    config = json.loads((copy / "config.json").read_text())
    config["model"] |= settings
    (copy / "config.json").write_text(json.dumps(config))
    return copy


@pytest.fixture
def no_allocation(monkeypatch):
    """Fails where a model is built with memory."""

    def build(run):
        raise AssertionError("the model is built")

    monkeypatch.setattr(building, "build", build)


def is_size(name):
    return name.startswith("num_") or name.endswith("_size")


@pytest.mark.parametrize(
    ("folder", "name"),
    # n-grams have no tensor of their vocabulary; a small one is refused because of the tokenizer
    [(folder, name) for folder, name in SIZES if is_size(name) and (folder.name, name) != ("ngram", "vocab_size")],
    ids=lambda part: part.name if isinstance(part, Path) else part,
)
@pytest.mark.parametrize("value", [10**7, 300])
def test_a_size_beyond_the_weights_names_the_setting_and_the_file(no_allocation, folder, name, value, tmp_path):
    with pytest.raises(ValueError, match=name) as error:
        load(change(folder, tmp_path, **{name: value}), device="cpu")
    assert str(tmp_path / "config.json") in str(error.value)


@pytest.mark.parametrize("folder", FOLDERS, ids=lambda folder: folder.name)
def test_the_sizes_of_the_weights_are_built(no_allocation, folder):
    with pytest.raises(AssertionError, match="the model is built"):
        load(folder, device="cpu")


def test_more_layers_than_tensors_are_not_built_even_on_the_meta_device(monkeypatch, tmp_path):
    folder = change(ROOT / "translation" / "transformer", tmp_path, num_layers=10**6)
    monkeypatch.setattr(building, "check_sizes", lambda run, shapes: None)
    with pytest.raises(ValueError, match=r"model\.num_layers=1000000.* need many more tensors than the \d+ of"):
        load(folder, device="cpu")


@pytest.mark.parametrize(
    ("settings", "sentence"),
    [
        ({"hidden_size": "four"}, r'config\.json: model\.hidden_size is "four", expected a whole number'),
        ({"num_layers": -1}, r"config\.json: .*model\.num_layers"),
        ({"num_heads": 3}, r"config\.json: .*num_heads|heads"),
        ({"norm": "middle"}, r"config\.json: .*norm"),
        ({"dropout": 7.0}, r"config\.json: .*dropout"),
        ({"dropout": float("nan")}, r"config\.json: .*model\.dropout is nan, expected a finite number"),
        ({"dropout": "inf"}, r"config\.json: .*dropout"),
    ],
)
def test_errors_of_settings_name_the_file(settings, sentence, tmp_path):
    with pytest.raises(ValueError, match=sentence):
        load(change(ROOT / "translation" / "transformer", tmp_path, **settings), device="cpu")
