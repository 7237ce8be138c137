"""A checkpoint folder: saved values are restored, and broken files raise clear errors."""

import errno
import json
import random

import numpy as np
import pytest
import torch
from safetensors import SafetensorError
from safetensors.torch import save_file, save_model
from torch import nn

from regard._utils import (
    append_line,
    atomic_file,
    atomic_folder,
    cut_lines,
    files,
    load_json,
    read_lines,
    save_json,
    write_text,
)
from regard.checkpoint import (
    Checkpoints,
    RunFolder,
    load_metadata,
    load_optimizer,
    load_tensors,
    load_weights,
    pack_optimizer,
    pack_random,
    save_tensors,
    save_weights,
    tensors,
    unpack_random,
)


class Tied(nn.Module):
    def __init__(self, size=4):
        super().__init__()
        self.embedding = nn.Embedding(6, size)
        self.readout = nn.Linear(size, 6)
        self.readout.weight = self.embedding.weight
        self.register_buffer("count", torch.tensor(3))


def test_saved_tensors_are_restored_with_ties_and_metadata(tmp_path):
    table, wide = torch.randn(3, 4), torch.randn(4, 6)
    tensors_to_save = {
        "a": table,
        "b": table,
        "view": table[1:],
        "turned": wide.T,
        "half": torch.randn(3).bfloat16(),
        "number": torch.tensor(7),
        "none": torch.empty(0, 3),
        "none too": torch.empty(0, 3),
    }
    save_tensors(tmp_path / "deep" / "x.safetensors", tensors_to_save, metadata={"step": 5})
    loaded = load_tensors(tmp_path / "deep" / "x.safetensors")
    assert loaded.keys() == tensors_to_save.keys() and loaded["a"] is loaded["b"]
    for name, tensor in tensors_to_save.items():
        assert torch.equal(loaded[name], tensor) and loaded[name].dtype == tensor.dtype
    assert load_metadata(tmp_path / "deep" / "x.safetensors") == {"step": 5}
    first = (tmp_path / "deep" / "x.safetensors").read_bytes()
    save_tensors(tmp_path / "y.safetensors", tensors_to_save, metadata={"step": 5})
    assert (tmp_path / "y.safetensors").read_bytes() == first


def test_weights_written_by_safetensors_itself_are_restored(tmp_path):
    model = Tied()
    save_weights(tmp_path / "ours.safetensors", model)
    save_model(model, str(tmp_path / "theirs.safetensors"))
    for name in ("ours", "theirs"):
        again = Tied()
        load_weights(tmp_path / f"{name}.safetensors", again)
        assert all(torch.equal(tensor, again.state_dict()[key]) for key, tensor in model.state_dict().items())
        assert again.readout.weight is again.embedding.weight


def test_weights_that_do_not_fit_are_named(tmp_path):
    path = tmp_path / "x.safetensors"
    save_weights(path, Tied(size=8))
    with pytest.raises(ValueError, match=r"another shape: .*weight \(6, 8\) instead of \(6, 4\)"):
        load_weights(path, Tied())
    save_file({f"layer{number}": torch.zeros(1) for number in range(9)}, path)
    before = Tied()
    weights_before = {name: tensor.clone() for name, tensor in before.state_dict().items()}
    with pytest.raises(
        ValueError, match=r"missing: .* and 1 more; not in the model: layer0, layer1, layer2 and 6 more"
    ):
        load_weights(path, before)
    assert all(torch.equal(tensor, weights_before[name]) for name, tensor in before.state_dict().items())


def test_broken_tensor_files_raise_clear_errors(tmp_path):
    path = tmp_path / "x.safetensors"
    with pytest.raises(FileNotFoundError, match=r"x.safetensors is missing: .* has no such file"):
        load_tensors(path)
    with pytest.raises(FileNotFoundError, match="the folder does not exist"):
        load_tensors(tmp_path / "no" / "x.safetensors")
    save_tensors(path, {"a": torch.randn(100)})
    whole = path.read_bytes()
    for content in (whole[:-7], whole[:5], b"", b"\x80\x04pickle" * 40, b"<html>not found</html>"):
        path.write_bytes(content)
        with pytest.raises(ValueError, match="is not a complete safetensors file"):
            load_tensors(path)


def test_json_is_restored_and_broken_json_raises_a_clear_error(tmp_path):
    path = tmp_path / "x.json"
    save_json(path, {"名": [1, 2.5, None, True]})
    assert load_json(path) == {"名": [1, 2.5, None, True]}
    path.write_text('{"a": 1')
    with pytest.raises(ValueError, match=r"x.json is not JSON: .*line 1"):
        load_json(path)
    path.write_bytes(b"\xff\xfe\x00")
    with pytest.raises(ValueError, match="is not UTF-8 text"):
        load_json(path)
    with pytest.raises(FileNotFoundError, match="is missing"):
        load_json(tmp_path / "y.json")
    with pytest.raises(ValueError, match="is a folder"):
        load_json(tmp_path)
    for value in (float("nan"), object()):
        with pytest.raises(ValueError, match="cannot be written as JSON"):
            save_json(path, {"a": value})


def test_lines_after_a_step_are_removed(tmp_path):
    path = tmp_path / "metrics.jsonl"
    cut_lines(path, 3)
    for step in range(1, 6):
        append_line(path, {"step": step})
    with path.open("a") as file:
        file.write('{"step": 6, "lo')
    assert len(read_lines(path)) == 5
    cut_lines(path, 3)
    assert path.read_text() == '{"step": 1}\n{"step": 2}\n{"step": 3}\n'
    path.write_text('broken\n{"step": 1}\n')
    with pytest.raises(ValueError, match="line 1 is not JSON"):
        read_lines(path)


FULL = OSError(errno.ENOSPC, "No space left on device")


def fail(error):
    def call(*args, **kwargs):
        raise error

    return call


@pytest.mark.parametrize("place", ["fsync", "safetensors", "replace"])
def test_a_full_disk_keeps_the_last_complete_file(tmp_path, monkeypatch, place):
    path = tmp_path / "x.safetensors"
    save_tensors(path, {"a": torch.ones(3)})
    with monkeypatch.context() as patch:
        if place == "safetensors":
            patch.setattr(
                tensors, "save_file", fail(SafetensorError("I/O error: No space left on device (os error 28)"))
            )
        else:
            patch.setattr(files.os, place, fail(FULL))
        with pytest.raises(OSError, match=r"the disk is full: .* the previous content is unchanged") as caught:
            save_tensors(path, {"a": torch.zeros(3)})
    assert caught.value.errno == errno.ENOSPC
    assert load_tensors(path)["a"].tolist() == [1.0, 1.0, 1.0]
    assert [entry.name for entry in tmp_path.iterdir()] == ["x.safetensors"]


def test_a_full_disk_keeps_the_last_complete_checkpoint(tmp_path, monkeypatch):
    checkpoints = Checkpoints(tmp_path)
    with checkpoints.writing(3) as folder:
        save_json(folder / "state.json", {"step": 3})

    def fill_up():
        with monkeypatch.context() as patch, checkpoints.writing(6) as folder:
            save_json(folder / "state.json", {"step": 6})
            patch.setattr(files.os, "fsync", fail(FULL))
            save_json(folder / "more.json", {})

    with pytest.raises(OSError, match="the disk is full"):
        fill_up()
    latest = checkpoints.latest()
    assert latest.step == 3 and load_json(latest.folder / "state.json") == {"step": 3}
    assert [entry.name for entry in tmp_path.iterdir()] == ["step-00000003"]


def test_checkpoints_replace_each_other_and_leave_no_files(tmp_path):
    checkpoints = Checkpoints(tmp_path / "training")
    assert checkpoints.latest() is None
    for step in (9, 10, 100):
        save_tensors(checkpoints.weights(step), {"a": torch.zeros(1)})
        with checkpoints.writing(step) as folder:
            write_text(folder / "state.json", "{}")
        assert checkpoints.latest().step == step
        assert len(list(checkpoints.folder.glob("step-*"))) == 1
    checkpoints.keep_weights([10, 100])
    assert len(list((checkpoints.folder / "weights").iterdir())) == 2
    with pytest.raises(ValueError, match="exists"), checkpoints.writing(100):
        pass


def test_an_error_while_writing_leaves_no_file(tmp_path):
    def break_off(place):
        with place as beside:
            (beside / "z" if beside.is_dir() else beside).write_text("half")
            raise KeyError

    for place in (atomic_file(tmp_path / "x"), atomic_folder(tmp_path / "y")):
        with pytest.raises(KeyError):
            break_off(place)
    assert not list(tmp_path.iterdir())
    with pytest.raises(ValueError, match="is a folder"), atomic_file(tmp_path):
        pass


def test_files_of_a_killed_writer_are_removed_and_no_others(tmp_path):
    checkpoint = RunFolder(tmp_path)
    checkpoint.save_config({"a": 1})
    for name in (".model.safetensors.0a1b2c3d.part", ".other.0a1b2c3d.part", "training/.step-00000001.0a1b2c3d.part"):
        (tmp_path / name).mkdir(parents=True)
    checkpoint.tidy()
    left = sorted(path.name for path in tmp_path.rglob("*"))
    assert left == [".other.0a1b2c3d.part", "config.json", "training"]


def test_a_missing_file_of_a_checkpoint_is_named(tmp_path):
    with pytest.raises(FileNotFoundError, match="is not a folder"):
        RunFolder.open(tmp_path / "nowhere")
    with pytest.raises(FileNotFoundError, match=r"has no config.json, so it is no finished run"):
        RunFolder.open(tmp_path)
    checkpoint = RunFolder(tmp_path)
    checkpoint.save_config({"model": "toy"})
    with pytest.raises(FileNotFoundError, match=r"has no model.safetensors"):
        RunFolder.open(tmp_path)
    save_weights(checkpoint.weights, Tied())
    assert RunFolder.open(tmp_path).load_config()["model"] == "toy"
    checkpoint.config.write_text("[1]")
    with pytest.raises(ValueError, match="holds a list, expected an object"):
        checkpoint.load_config()
    assert checkpoint.evaluation("test").name == "evaluation-test.json"


@pytest.mark.parametrize("kind", [torch.optim.AdamW, torch.optim.Adam, torch.optim.SGD])
def test_a_restored_optimizer_continues(tmp_path, kind):
    def learn(model, optimizer, steps):
        for step in range(steps):
            optimizer.zero_grad()
            (model(torch.full((2, 3), 1.0 + step)) ** 2).sum().backward()
            optimizer.step()

    model, again = nn.Linear(3, 2), nn.Linear(3, 2)
    optimizer = kind(model.parameters(), lr=0.01)
    learn(model, optimizer, 3)
    packed, facts = pack_optimizer(optimizer.state_dict())
    save_tensors(tmp_path / "x.safetensors", packed)
    again.load_state_dict(model.state_dict())
    other = kind(again.parameters(), lr=0.5)
    load_optimizer(other, load_tensors(tmp_path / "x.safetensors"), json.loads(json.dumps(facts)))
    learn(model, optimizer, 3)
    learn(again, other, 3)
    assert torch.equal(model.weight, again.weight) and other.param_groups[0]["lr"] == 0.01


def test_restored_random_generators_continue(tmp_path):
    def draw():
        return random.gauss(0, 1), random.random(), np.random.randn(), np.random.rand(), torch.rand(2).tolist()

    draw()
    here = pack_random(torch.device("cpu"))
    save_tensors(tmp_path / "x.safetensors", {name: torch.stack([row * 0, row]) for name, row in here.items()})
    expected = [draw() for _ in range(3)]
    random.seed(5), np.random.seed(5), torch.manual_seed(5)
    rows = load_tensors(tmp_path / "x.safetensors")
    unpack_random({name: both[1] for name, both in rows.items()}, torch.device("cpu"))
    assert [draw() for _ in range(3)] == expected
