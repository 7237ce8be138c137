"""Two processes, or a batch in two parts, give the weights of one process up to rounding."""

import json
import os
import socket
import subprocess
import sys
from pathlib import Path

import pytest
import torch

from regard._utils import read_lines
from regard.checkpoint import load_tensors
from regard.training import ComputeSettings, EverySettings, SelectionSettings, train
from tests.training import reading, toy
from tests.training.toy import Letters, Toy, settings

# Adam divides by the root of a mean square, which magnifies the rounding of small gradients
TOLERANCE = {"rtol": 1e-4, "atol": 1e-5}
ARGUMENTS = {"steps": 12, "dropout": 0.0}


@pytest.fixture(scope="module")
def alone(tmp_path_factory):
    folder = tmp_path_factory.mktemp("alone")
    threads = torch.get_num_threads()
    toy.main(folder, ARGUMENTS)
    torch.set_num_threads(threads)
    return folder


def assert_same(folder, other):
    for name in ("model.safetensors", "training/step-00000012/weights.safetensors"):
        ours, theirs = load_tensors(folder / name), load_tensors(other / name)
        assert ours.keys() == theirs.keys()
        for key in ours:
            torch.testing.assert_close(ours[key], theirs[key], **TOLERANCE)
    losses = [[line["loss"] for line in read_lines(each / "metrics.jsonl")] for each in (folder, other)]
    torch.testing.assert_close(*map(torch.tensor, losses), **TOLERANCE)


def free_port():
    with socket.socket() as probe:
        probe.bind(("127.0.0.1", 0))
        return probe.getsockname()[1]


def launch(folder, arguments, script="toy.py"):
    # --cpu would start one process unless MPI is there; --multi_gpu starts the given number, here without GPUs
    options = ["--multi_gpu", "--num_processes=2", "--num_machines=1", "--mixed_precision=no", "--dynamo_backend=no"]
    command = [sys.executable, "-m", "accelerate.commands.launch", *options, f"--main_process_port={free_port()}"]
    return subprocess.run(
        [*command, str(Path(__file__).with_name(script)), str(folder), json.dumps(arguments)],
        env=os.environ | {"ACCELERATE_USE_CPU": "true", "OMP_NUM_THREADS": "1"},
        capture_output=True,
        text=True,
        check=False,
        timeout=300,
    )


def test_two_processes_train_the_same_model_as_one_also_when_resumed(alone, tmp_path):
    for steps in (5, 12):
        process = launch(tmp_path / "two", ARGUMENTS | {"accumulation": 2, "steps": steps})
        assert process.returncode == 0, process.stderr
        assert process.stdout.count("model.safetensors holds") == 1
    assert_same(tmp_path / "two", alone)
    assert len(load_tensors(tmp_path / "two" / "training" / "step-00000012" / "random.safetensors")["torch"]) == 2


def test_rows_of_a_stream_may_be_resumed_with_other_processes(tmp_path):
    """3 rows on 2 processes, then on one: the carried state belongs to its row."""
    process = launch(tmp_path / "two", {"steps": 5}, script="reading.py")
    assert process.returncode == 0, process.stderr
    assert load_tensors(tmp_path / "two" / "training" / "step-00000005" / "carried.safetensors")["0"].shape[0] == 3
    resumed = reading.main(tmp_path / "two", {"steps": 8})
    alone = reading.main(tmp_path / "one", {"steps": 8})
    for ours, theirs in zip(resumed.parameters(), alone.parameters(), strict=True):
        torch.testing.assert_close(ours, theirs, **TOLERANCE)


@pytest.mark.parametrize("accumulation", [2, 3])
def test_accumulation_trains_the_same_model_as_whole_batches(alone, tmp_path, accumulation):
    toy.main(tmp_path / "parts", ARGUMENTS | {"accumulation": accumulation})
    assert_same(tmp_path / "parts", alone)


def test_a_batch_smaller_than_the_number_of_parts_counts_once(tmp_path):
    weights = []
    for accumulation in (1, 4):
        model = Toy()
        compute = ComputeSettings(device="cpu", precision="fp32", accumulation=accumulation)
        chosen = settings(steps=3, compute=compute, every=EverySettings(log=1), selection=SelectionSettings())
        train(model, Letters(count=6, rows=2), chosen, tmp_path / str(accumulation))
        weights.append(model.state_dict())
    for key in weights[0]:
        torch.testing.assert_close(weights[0][key], weights[1][key], **TOLERANCE)
