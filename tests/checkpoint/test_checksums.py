"""A damaged file is refused: every byte counts, files of earlier versions have no checksum, and it can be skipped."""

import json
import random
from contextlib import suppress

import pytest
import torch
from safetensors.torch import save_file
from torch import nn

from regard.checkpoint import (
    RunFolder,
    load_metadata,
    load_signed_json,
    load_tensors,
    load_weights,
    save_signed_json,
    save_tensors,
    save_weights,
)


@pytest.fixture
def weights(tmp_path):
    path = tmp_path / "x.safetensors"
    table = torch.arange(12.0).view(3, 4)
    save_tensors(path, {"a": table, "tied": table, "b": torch.ones(5)}, metadata={"step": 7})
    return path


def equal(one, other):
    return one.keys() == other.keys() and all(torch.equal(one[name], other[name]) for name in one)


def test_a_flipped_bit_is_refused_wherever_it_is(weights):
    content, before, accepted = weights.read_bytes(), load_tensors(weights), 0
    # every bit of a small file
    for position in range(len(content)):
        bit = random.Random(position).randrange(8)
        changed = bytearray(content)
        changed[position] ^= 1 << bit
        weights.write_bytes(changed)
        with suppress(ValueError):
            after = load_tensors(weights)
            # a metadata key of another name: the tensors are unchanged, and tied names are a convenience
            assert all(torch.equal(after[name], before[name]) for name in after) and {"b"} < after.keys()
            accepted += 1
    # the letters of that key
    assert accepted <= len("regard")


def test_the_sentence_names_the_file_and_the_way_out(weights, monkeypatch):
    content = bytearray(weights.read_bytes())
    content[-1] ^= 1
    weights.write_bytes(content)
    with pytest.raises(ValueError, match=r"x\.safetensors was damaged or changed .* copy, or load it .* verify=False"):
        load_tensors(weights)
    assert load_tensors(weights, verify=False).keys() == {"a", "tied", "b"}
    monkeypatch.setenv("REGARD_VERIFY", "0")
    assert load_tensors(weights).keys() == {"a", "tied", "b"}


def test_files_without_a_checksum_load(tmp_path):
    tensors = {"a": torch.ones(3), "b": torch.zeros(2)}
    # as version 0.1 wrote them
    save_file(tensors, tmp_path / "x", metadata={"regard": json.dumps({"aliases": {"c": "a"}, "facts": {"step": 2}})})
    assert load_tensors(tmp_path / "x").keys() == {"a", "b", "c"} and load_metadata(tmp_path / "x") == {"step": 2}
    save_file(tensors, tmp_path / "y")
    assert equal(load_tensors(tmp_path / "y"), tensors)


@pytest.mark.parametrize(
    "metadata",
    [
        '{"aliases": {"a": "nope"}}', '{"aliases": [1, 2]}', '{"aliases": {"a": 3}}', '{"facts": []}', "[1]", "{", "3",
        '{"sha256x": "0"}', '{"aliases": null}', "[" * 100_000,
    ],
)  # fmt: skip
def test_hostile_metadata_are_sentences(tmp_path, metadata):
    save_file({"w": torch.ones(2)}, tmp_path / "x", metadata={"regard": metadata})
    with pytest.raises(ValueError, match=r"x .*Restore it"):
        load_tensors(tmp_path / "x")


class Counted(nn.Module):
    def __init__(self):
        super().__init__()
        self.linear = nn.Linear(2, 2)
        self.register_buffer("count", torch.tensor([3, 4]))


@pytest.mark.parametrize(
    ("name", "dtype"),
    [("linear.weight", "int8"), ("linear.bias", "bool"), ("count", "float32"), ("count", "int32")],
)
def test_weights_of_another_kind_are_named(tmp_path, name, dtype):
    model = Counted()
    state = model.state_dict()
    state[name] = state[name].to(getattr(torch, dtype))
    save_tensors(tmp_path / "x", state)
    with pytest.raises(ValueError, match=rf"of another dtype: {name} {dtype} instead of"):
        load_weights(tmp_path / "x", model)


@pytest.mark.parametrize("dtype", [torch.float16, torch.bfloat16, torch.float64])
def test_every_floating_dtype_is_converted(tmp_path, dtype):
    model = Counted().to(dtype)
    save_weights(tmp_path / "x", model)
    again = Counted()
    load_weights(tmp_path / "x", again)
    assert again.linear.weight.dtype == torch.float32 and again.count.tolist() == [3, 4]
    assert torch.equal(again.linear.weight, model.linear.weight.float())


def test_a_changed_document_is_refused(tmp_path, monkeypatch):
    path = tmp_path / "state.json"
    save_signed_json(path, {"b": (1, 2), "a": {"rate": 0.1, "file": "/data/a"}})
    document = load_signed_json(path)
    path.write_text(json.dumps(document, sort_keys=True, indent=4))
    assert load_signed_json(path) == document, "order and white space do not count"
    path.write_text(json.dumps({**document, "a": {"rate": 0.1, "file": "/moved/a"}}))
    assert load_signed_json(path)["a"]["file"] == "/moved/a", "files may be moved"
    path.write_text(json.dumps({**document, "b": [1, 3]}))
    with pytest.raises(ValueError, match=r"state\.json was damaged or changed .* or remove its entry 'sha256'"):
        load_signed_json(path)
    monkeypatch.setenv("REGARD_VERIFY", "0")
    assert load_signed_json(path)["b"] == [1, 3]


def test_the_config_has_the_checksums_of_files_beside_it(tmp_path):
    folder = RunFolder(tmp_path)
    folder.tokenizer.write_text("{}")
    folder.save_config({"model": "toy"}, ["tokenizer.json"])
    folder.verify()
    folder.tokenizer.write_text("{ }")
    with pytest.raises(ValueError, match=r"tokenizer\.json was damaged or changed"):
        folder.verify()
    folder.tokenizer.write_text("{}")
    folder.config.write_text(folder.config.read_text().replace("toy", "joy"))
    with pytest.raises(ValueError, match=r"config\.json was damaged or changed"):
        folder.verify()
    folder.config.write_text('{"model": "toy", "files": 3}')
    with pytest.raises(ValueError, match="has a int as files"):
        folder.verify()
    folder.config.write_text('{"model": "toy"}')
    folder.verify()
