"""Shared by all tests: a fixed seed, and at the end the number of combinations that passed the contract."""

import errno
from contextlib import contextmanager
from pathlib import Path

import pytest
import torch
from hypothesis import settings

import tests.type_checker  # noqa: F401 - before regard, whose functions it checks
from regard.checkpoint import tensors
from regard.testing import DTYPES

settings.register_profile("regard", deadline=None, max_examples=40, derandomize=True)
settings.load_profile("regard")

# small tensors gain nothing from more threads, which stall on a busy machine
torch.set_num_threads(1)


@pytest.fixture(autouse=True)
def _seed():
    torch.manual_seed(0)


@pytest.fixture
def filling_disk(monkeypatch):
    """A block in which the disk is full after a number of tensor files."""

    @contextmanager
    def block(after):
        real, calls = tensors.save_file, []

        def save(*arguments, **named):
            calls.append(arguments)
            if len(calls) > after:
                raise OSError(errno.ENOSPC, "No space left on device")
            return real(*arguments, **named)

        with monkeypatch.context() as patch:
            patch.setattr(tensors, "save_file", save)
            yield

    return block


# whole programs: run-time checks of shapes take two thirds of the time, and the tests of their parts have them
PROGRAMS = tuple(
    str(Path(__file__).parent / name)
    for name in (
        *("benchmarks", "checkpoint", "cli", "recipes", "serving", "studio", "training"),
        *("test_guides.py", "test_readme.py", "fused/test_stale", "fused/test_replaced", "tasks/test_"),
        *("experiments/test_alignment.py", "experiments/test_causal_mask.py", "experiments/test_training.py"),
    )
)


def pytest_collection_modifyitems(items):
    for item in items:
        if str(item.path).startswith(PROGRAMS):
            item.add_marker(pytest.mark.unchecked)
        if "cuda" in item.keywords and not torch.cuda.is_available():
            item.add_marker(pytest.mark.skip(reason="needs a CUDA device, and there is none"))


def pytest_terminal_summary(terminalreporter):
    passed = terminalreporter.stats.get("passed", [])
    # each test has every dtype
    combinations = len(DTYPES) * sum("test_attention.py::test_keeps_the_contract" in report.nodeid for report in passed)
    if combinations:
        terminalreporter.write_line(
            f"{combinations} combinations of score x alignment x mask x dtype passed the contract"
        )
