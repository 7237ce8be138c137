"""Killed with SIGKILL at any moment and resumed, a training gives bit for bit the weights of one that was not."""

import json
import subprocess
import sys
from pathlib import Path

import pytest

from regard._utils import read_lines

SCRIPT = Path(__file__).with_name("killing.py")


def run(mode, folder, **arguments):
    command = [sys.executable, str(SCRIPT), mode, str(folder), json.dumps({"dropout": 0.3} | arguments)]
    process = subprocess.run(command, capture_output=True, text=True, check=False, timeout=200)
    assert process.returncode == 0, process.stderr
    return int(process.stdout)


def contents(folder):
    """Every tensor file, byte by byte, by its path in the folder."""
    return {path.relative_to(folder): path.read_bytes() for path in folder.rglob("*.safetensors")}


@pytest.mark.parametrize(
    ("mode", "arguments", "at_least"),
    [
        # the times are random, so that some fall on a step, some on a save, some before the first save; the delay makes
        # the training longer than the first three together, however fast the machine
        ("random", {"steps": 24, "kills": 8, "longest": 0.4, "delay": 0.05}, 3),
        ("counted", {"steps": 4, "ema": 0.9}, 25),
    ],
)
def test_a_killed_and_resumed_training_equals_an_uninterrupted_one(tmp_path, mode, arguments, at_least):
    assert run(mode, tmp_path, **arguments) >= at_least
    whole, killed = contents(tmp_path / "whole"), contents(tmp_path / "killed")
    assert len(whole) >= 5
    assert whole == killed
    assert not list((tmp_path / "killed").rglob("*.part"))
    before, after = (read_lines(tmp_path / name / "metrics.jsonl") for name in ("whole", "killed"))
    assert [(line["step"], line["loss"]) for line in before] == [(line["step"], line["loss"]) for line in after]
