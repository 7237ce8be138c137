"""The record of the suite with several versions."""

import json

import pytest

from benchmarks import versions
from benchmarks.versions import add_folder, folders, installed_packages, main, outcomes

OUTPUT = """\
..F [100%]
=== short test summary info ===
FAILED tests/kernels/test_dot.py::test_one[a] - AssertionError: 3 passed
2 failed, 5 passed, 1 skipped, 7 deselected, 4 warnings in 3.21s
"""


def test_outcomes_are_read_from_the_last_line():
    assert outcomes(OUTPUT) == ({"failed": 2, "passed": 5, "skipped": 1}, ["tests/kernels/test_dot.py::test_one[a]"])
    assert outcomes("7 deselected in 0.2s") == ({}, [])


def test_a_folder_is_replaced_and_the_sums_follow():
    first = {"counts": {"passed": 3, "failed": 1}, "failed": ["one"]}
    record = add_folder(add_folder({}, "kernels", first), "data", {"counts": {"passed": 2, "skipped": 4}, "failed": []})
    assert record["counts"] == {"passed": 5, "failed": 1, "skipped": 4} and record["failed"] == ["one"]
    record = add_folder(record, "kernels", {"counts": {"passed": 4}, "failed": []})
    assert record["counts"] == {"passed": 6, "failed": 0, "skipped": 4} and record["failed"] == []


@pytest.fixture
def recorded(tmp_path, monkeypatch):
    """The file of records, where each folder has one test that passes."""
    monkeypatch.setattr(versions, "RESULTS", tmp_path)
    monkeypatch.setattr(versions, "run_folder", lambda folder: {"counts": {"passed": 1}, "failed": []})
    return lambda: json.loads((tmp_path / "versions.json").read_text())


def test_folders_add_up_until_the_commit_changes(recorded, monkeypatch):
    monkeypatch.setenv("REGARD_COMMIT", "a")
    assert main("new", ["data"]) == main("old", ["data"]) == main("new", ["models"]) == 0
    assert list(recorded()["new"]["folders"]) == ["data", "models"] and list(recorded()["old"]["folders"]) == ["data"]
    monkeypatch.setenv("REGARD_COMMIT", "b")
    main("new", ["models"])
    assert list(recorded()["new"]["folders"]) == ["models"] and recorded()["new"]["commit"] == "b"


def test_a_failure_is_the_exit_status(recorded, monkeypatch):
    monkeypatch.setattr(versions, "run_folder", lambda folder: {"counts": {"failed": 1}, "failed": ["one"]})
    assert main("new", ["data"]) == 1


def test_every_folder_of_tests_and_every_package_is_named():
    assert {"attention", "kernels", "models", "."} <= set(folders())
    assert {"torch", "numpy", "typer"} <= set(installed_packages())
