"""The device of a training: "auto" or a torch device by its name."""

import pytest
import torch

from regard.training import ComputeSettings
from regard.training.engine import _select_device


@pytest.mark.parametrize("device", ["auto", "cpu", "cuda", "cuda:1", "mps"])
def test_a_torch_device_is_a_setting(device):
    assert ComputeSettings(device=device).device == device


@pytest.mark.parametrize("device", ["tpu", "meta", "", "cuda:x"])
def test_other_devices_are_refused(device):
    with pytest.raises(ValueError, match="expected auto, cpu, cuda, mps, or one such as cuda:1"):
        ComputeSettings(device=device)


def test_a_missing_device_is_refused():
    _select_device("auto")
    _select_device("cpu")
    with pytest.raises(ValueError, match="device is cuda:99, but torch sees"):
        _select_device("cuda:99")


def test_a_device_with_an_index_is_refused_for_several_processes(monkeypatch):
    monkeypatch.setenv("WORLD_SIZE", "2")
    monkeypatch.setattr(torch.cuda, "device_count", lambda: 2)
    with pytest.raises(ValueError, match="several processes train"):
        _select_device("cuda:1")
