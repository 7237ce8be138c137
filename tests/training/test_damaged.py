"""A checkpoint that is damaged or not of this training is refused with a sentence before the first step."""

import json

import pytest
import torch
from rich.console import Console
from safetensors.torch import save_file

from regard.checkpoint import RunFolder, load_tensors
from regard.training import SelectionSettings, train
from tests.training.toy import Letters, Toy, loss_of, settings

QUIET = Console(quiet=True)
CHOSEN = settings(selection=SelectionSettings(average_last=3, ema=0.9))


def fit(folder, *, steps=12):
    data = Letters()
    chosen = settings(steps=steps, selection=CHOSEN.selection)
    validate = lambda model: loss_of(model, data)  # noqa: E731
    return train(Toy(dropout=0.3), data, chosen, folder, validate=validate, resume=True, console=QUIET)


@pytest.fixture
def trained(tmp_path):
    fit(tmp_path)
    return tmp_path


def without_checksum(path, change):
    """Change the tensors of a file as one of 0.1, which has no checksum."""
    tensors = load_tensors(path)
    change(tensors)
    save_file(tensors, path)


@pytest.mark.parametrize(
    ("name", "key", "value"),
    [
        ("random", "python", torch.full((1, 626), 2**40)),
        ("random", "numpy", torch.full((1, 626), -1)),
        ("random", "numpy", torch.zeros(1, 3, dtype=torch.int64)),
        ("random", "torch", torch.zeros(1, 7, dtype=torch.uint8)),
        ("random", "python", None),
        ("random", "torch", None),
        ("optimizer", "0/exp_avg", None),
        ("optimizer", "0/exp_avg", torch.zeros(3)),
        ("optimizer", "99/exp_avg", torch.zeros(3)),
        ("optimizer", "x", torch.zeros(3)),
    ],
)
def test_a_state_of_another_form_is_a_sentence(trained, name, key, value):
    folder = RunFolder(trained).checkpoints.latest().folder

    def change(tensors):
        tensors.pop(key, None)
        if value is not None:
            tensors[key] = value

    without_checksum(folder / f"{name}.safetensors", change)
    with pytest.raises(ValueError, match=r"step-00000012 holds a state that does not fit this training"):
        fit(trained, steps=14)


@pytest.mark.parametrize("name", ["weights", "running", "optimizer", "random"])
def test_a_flipped_bit_of_a_checkpoint_is_refused(trained, name):
    path = RunFolder(trained).checkpoints.latest().folder / f"{name}.safetensors"
    content = bytearray(path.read_bytes())
    content[-3] ^= 16
    path.write_bytes(content)
    with pytest.raises(ValueError, match=rf"{name}\.safetensors was damaged or changed"):
        fit(trained, steps=14)


def test_a_changed_progress_is_refused(trained):
    path = RunFolder(trained).checkpoints.latest().folder / "state.json"
    state = json.loads(path.read_text())
    state["progress"]["tokens"] += 1
    path.write_text(json.dumps(state))
    with pytest.raises(ValueError, match=r"state\.json was damaged or changed"):
        fit(trained, steps=14)


@pytest.mark.parametrize("harm", ["missing", "damaged"])
@pytest.mark.parametrize("which", ["best", "averaged"])
def test_weights_that_are_needed_at_the_end_are_checked_at_the_start(trained, which, harm):
    checkpoints = RunFolder(trained).checkpoints
    # a checkpoint after the best one, so that the published weights are not written again
    state = json.loads((checkpoints.latest().folder / "state.json").read_text())
    state["progress"]["standing"]["step"] = 8
    del state["sha256"]
    (checkpoints.latest().folder / "state.json").write_text(json.dumps(state))
    path = RunFolder(trained).weights if which == "best" else checkpoints.weights(8)
    if harm == "missing":
        path.unlink()
    else:
        content = bytearray(path.read_bytes())
        content[-1] ^= 1
        path.write_bytes(content)
    with pytest.raises((ValueError, FileNotFoundError), match=rf"{path.name} (is missing|was damaged)"):
        fit(trained, steps=14)
