"""Killed at any change of a file while a run is overwritten, a folder holds the old run or the new one after repair."""

import os
import shutil
from contextlib import contextmanager

import pytest

from regard._utils import LOCK, atomic_folder, lock_folder, lock_if_free, write_text
from regard.checkpoint import RunFolder, has_old_run, overwrite_guard, repair

FILES = ("config.json", "model.safetensors", "tokenizer.json", "README.md", "metrics.jsonl", "evaluation-test.json")


def write_run(folder, name, *, has_saved=True):
    """The files of a run in the order of a training; its checkpoint comes before its weights."""
    for file in ("tokenizer.json", "config.json", "metrics.jsonl"):
        write_text(folder / file, name)
    write_text(folder / "training" / "weights" / "step-1.safetensors", name)
    if has_saved:
        with atomic_folder(folder / "training" / "step-00000001") as new:
            (new / "state.json").write_text(name)
        for file in FILES:
            write_text(folder / file, name)


def contents(folder):
    return {str(path.relative_to(folder)): path.read_text() for path in folder.rglob("*") if path.is_file()}


class KilledError(BaseException):
    """Stands for SIGKILL: no change of a file after it succeeds, so that no handler can clean up."""


@contextmanager
def dying(count):
    """Raise KilledError at the `count`-th change of a file and at every later one."""
    left = count

    def wrap(real):
        def call(*args, **kwargs):
            nonlocal left
            left -= 1
            if left <= 0:
                raise KilledError
            return real(*args, **kwargs)

        return call

    with pytest.MonkeyPatch.context() as patch:
        for module, name in ((os, "replace"), (os, "rename"), (os, "unlink"), (os, "mkdir"), (shutil, "rmtree")):
            patch.setattr(module, name, wrap(getattr(module, name)))
        yield


def survives(work, count):
    """Run `work`, killed at its `count`-th change of a file; whether it was done before."""
    try:
        with dying(count):
            work()
    except KilledError:
        return False
    return True


def overwrite(folder, *, has_saved):
    """Overwrite as `fit` does, and fail before the first save if there is none."""
    try:
        with lock_folder(folder), overwrite_guard(RunFolder(folder)):
            write_run(folder, "new", has_saved=has_saved)
            if not has_saved:
                raise KeyboardInterrupt
    except KeyboardInterrupt:
        pass


@pytest.mark.parametrize("has_saved", [True, False])
def test_nothing_is_lost_whenever_the_process_is_killed(tmp_path, has_saved):
    write_run(tmp_path / "old", "old")
    old, count, outcomes = contents(tmp_path / "old"), 0, set()
    while True:
        count += 1
        folder = shutil.copytree(tmp_path / "old", tmp_path / f"run-{count}")
        (folder / "notes.txt").write_text("mine")
        if survives(lambda folder=folder: overwrite(folder, has_saved=has_saved), count):
            break
        # the repair is killed too, at each of its own changes in turn
        attempt = 1
        while not survives(lambda folder=folder: repair(RunFolder(folder)), attempt):
            attempt += 1
        assert repair(RunFolder(folder)) is None and not has_old_run(RunFolder(folder))
        RunFolder(folder).tidy()
        after = {name: text for name, text in contents(folder).items() if name not in ("notes.txt", LOCK)}
        # either the old run, complete, or the new one from its first save on
        is_old = after == old
        assert is_old or (has_saved and set(after.values()) == {"new"}), after
        assert (folder / "notes.txt").read_text() == "mine"
        outcomes.add(is_old)
    assert count > 30
    assert outcomes == ({True, False} if has_saved else {True})


def test_the_sentence_says_what_was_done(tmp_path):
    folder = tmp_path / "run"
    write_run(folder, "old")
    assert repair(RunFolder(folder)) is None
    (folder / ".old-run").mkdir()
    (folder / "config.json").rename(folder / ".old-run" / "config.json")
    assert "restored the run that was being overwritten" in repair(RunFolder(folder))
    assert contents(folder) == dict.fromkeys(contents(folder), "old") and not has_old_run(RunFolder(folder))
    (folder / ".old-run").mkdir()
    shutil.copy(folder / "config.json", folder / ".old-run")
    assert "removed the old run, which the new one had replaced" in repair(RunFolder(folder))


def test_a_folder_that_another_process_trains_into_stays(tmp_path):
    write_run(tmp_path, "new")
    (tmp_path / ".old-run").mkdir()
    (tmp_path / ".old-run" / "config.json").write_text("old")
    with lock_folder(tmp_path):
        assert repair(RunFolder(tmp_path)) is None and has_old_run(RunFolder(tmp_path))
    with lock_if_free(tmp_path) as is_free:
        assert is_free
    assert repair(RunFolder(tmp_path)) is not None


def test_a_start_that_was_killed_before_its_config_leaves_a_usable_folder(tmp_path):
    (tmp_path / LOCK).touch()
    (tmp_path / "tokenizer.json").write_text("{}")
    (tmp_path / ".config.json.0123abcd.part").mkdir()
    assert "killed before its start was complete" in repair(RunFolder(tmp_path))
    assert not any(path.name != LOCK for path in tmp_path.iterdir())
    # without the lock of a killed process, the file is the user's
    (tmp_path / LOCK).unlink(missing_ok=True)
    (tmp_path / "tokenizer.json").write_text("{}")
    assert repair(RunFolder(tmp_path)) is None and (tmp_path / "tokenizer.json").exists()
