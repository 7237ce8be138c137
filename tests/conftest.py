"""Shared by all tests: a fixed seed, and at the end the number of combinations that passed the contract."""

import errno
from contextlib import contextmanager

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


def pytest_collection_modifyitems(items):
    if not torch.cuda.is_available():
        for item in items:
            if "cuda" in item.keywords:
                item.add_marker(pytest.mark.skip(reason="needs a CUDA device, and there is none"))


def pytest_terminal_summary(terminalreporter):
    passed = terminalreporter.stats.get("passed", [])
    # each test has every dtype
    combinations = len(DTYPES) * sum("test_attention.py::test_keeps_the_contract" in report.nodeid for report in passed)
    if combinations:
        terminalreporter.write_line(
            f"{combinations} combinations of score x alignment x mask x dtype passed the contract"
        )
