"""A record has its commit."""

import json
import re
import subprocess
import sys

import pytest

from benchmarks import gpu_tests, harness


def test_the_commit_is_that_of_the_repository(monkeypatch):
    monkeypatch.delenv("REGARD_COMMIT", raising=False)
    actual = harness.commit()
    if actual is None:
        pytest.skip("there is no git here")
    assert re.fullmatch(r"[0-9a-f]{40}(-dirty)?", actual)


def test_without_git_the_commit_comes_from_the_environment(monkeypatch):
    monkeypatch.setenv("REGARD_COMMIT", "abc")
    assert harness.commit() == "abc"
    monkeypatch.delenv("REGARD_COMMIT")
    monkeypatch.setenv("PATH", "")
    assert harness.commit() is None


def test_the_record_of_the_gpu_tests_has_the_commit(monkeypatch, tmp_path):
    output = "FAILED tests/test_cuda.py::test_one\n1 failed, 2 passed in 3.2s\n"
    process = subprocess.CompletedProcess([], 1, stdout=output, stderr="")
    monkeypatch.setenv("REGARD_COMMIT", "abc")
    monkeypatch.setattr(gpu_tests, "RESULTS", tmp_path)
    monkeypatch.setattr(gpu_tests.subprocess, "run", lambda *_, **__: process)
    monkeypatch.setattr(sys, "argv", ["gpu_tests"])
    assert gpu_tests.main() == 1
    record = json.loads((tmp_path / "gpu_tests.json").read_text())
    assert record["commit"] == "abc" and record["counts"] == {"failed": 1, "passed": 2}
    assert record["failed"] == ["tests/test_cuda.py::test_one"]
