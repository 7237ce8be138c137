"""The snapshot is deterministic, and its comparison detects differences of numbers and not of names."""

import copy

import pytest
import torch
from safetensors.torch import save_file
from torch.nn.modules.module import _has_any_global_hook

from benchmarks.snapshot import MODES, compare, differences, readable, record, weights_of
from benchmarks.snapshot_cases import cases, write_data

NAME = "sentences/lstmn_encoder"


def take(folder):
    folder.mkdir()
    return record(cases()[NAME], folder, write_data(folder))


@pytest.fixture(scope="module")
def first(tmp_path_factory):
    return take(tmp_path_factory.mktemp("snapshot") / "first")


def test_a_second_training_is_bit_equal(first, tmp_path):
    assert len(first["loss"]) == 20
    assert first["initial_weights"] != first["final_weights"]
    assert take(tmp_path / "second") == first


def test_readable_code_computes_the_same_up_to_rounding(first, tmp_path):
    with readable():
        assert _has_any_global_hook()
        second = take(tmp_path / "second")
    assert not _has_any_global_hook()
    assert second["initial_weights"] == first["initial_weights"]
    losses = ([float.fromhex(loss) for loss in one["loss"]] for one in (first, second))
    assert next(losses) == pytest.approx(next(losses), rel=1e-5)


def test_the_largest_difference_is_printed(first, capsys):
    other = copy.deepcopy(first)
    other["loss"][3] = (float.fromhex(first["loss"][3]) * 1.001).hex()
    other["outputs"]["classes"][0]["label"] = "FISH"
    old, new = ({"machine": {}, **{mode: {NAME: one} for mode in MODES}} for one in (first, other))
    assert not compare(old, new)
    printed = capsys.readouterr().out
    assert f"default: {NAME}: differs" in printed
    assert "loss: 1 of 20 values, at most 1.0e-03 relative (loss.3)" in printed
    assert "1 that are not floats (outputs.classes.0.label)" in printed
    assert compare(old, old)


def test_a_case_that_is_missing_is_a_difference(first, capsys):
    old, new = {"machine": {}, "default": {NAME: first}, "readable": {}}, {"machine": {}, "default": {}, "readable": {}}
    assert not compare(old, new)
    assert not compare(new, old)
    assert compare(old, new, complete=False)
    assert f"default: {NAME}: not in the new snapshot" in capsys.readouterr().out


def test_weights_under_other_names_are_equal(tmp_path):
    table, bias = torch.randn(3, 2), torch.randn(5)
    save_file({"a.weight": table, "b.bias": bias}, tmp_path / "old.safetensors")
    save_file({"z.weight": table, "b.offset": bias}, tmp_path / "new.safetensors")
    old, new = (weights_of(tmp_path / f"{name}.safetensors") for name in ("old", "new"))
    assert old["sha256"] != new["sha256"]
    assert not differences({"weights": old}, {"weights": new})
    save_file({"z.weight": table, "b.offset": bias + 1}, tmp_path / "new.safetensors")
    assert differences({"weights": old}, {"weights": weights_of(tmp_path / "new.safetensors")})
