"""A folder has one writer; a second is refused, and no lock file remains."""

import subprocess
import sys
from pathlib import Path

import pytest

from regard._utils import is_unused, lock_folder

fcntl = pytest.importorskip("fcntl", reason="patches the lock that filelock takes on this system")

HOLD = """
import sys
from pathlib import Path
from regard._utils import lock_folder
with lock_folder(Path(sys.argv[1])):
    print("held", flush=True)
    sys.stdin.read()
"""


def test_a_lock_excludes_other_processes_until_its_process_ends(tmp_path):
    folder = tmp_path / "runs" / "one"
    with subprocess.Popen(
        [sys.executable, "-c", HOLD, str(folder)], stdin=subprocess.PIPE, stdout=subprocess.PIPE, text=True
    ) as other:
        assert other.stdout.readline() == "held\n"
        with (
            pytest.raises(ValueError, match=r"another process is training into .*one\. Wait until it ends"),
            lock_folder(folder),
        ):
            pass
        other.kill()
    # the lock file of a killed process is not a lock, and does not count as a use of the folder
    assert [path.name for path in folder.iterdir()] == [".lock"] and is_unused(folder)
    with lock_folder(folder):
        (folder / "kept").touch()
    assert [path.name for path in folder.iterdir()] == ["kept"] and not is_unused(folder)


TAKE_TURNS = """
import sys
from pathlib import Path
from regard._utils import lock_folder
folder, busy = Path(sys.argv[1]), Path(sys.argv[1] + ".busy")
turns = 0
while turns < 8:
    try:
        with lock_folder(folder):
            busy.mkdir()
            busy.rmdir()
            turns += 1
    except ValueError:
        pass
print("alone")
"""


def test_alternating_processes_never_hold_the_lock_at_the_same_time(tmp_path):
    """Each process removes the file, which the next one may already have opened."""
    line = [sys.executable, "-c", TAKE_TURNS, str(tmp_path / "one")]
    processes = [subprocess.Popen(line, stdout=subprocess.PIPE, text=True) for _ in range(2)]
    assert [process.communicate(timeout=200)[0] for process in processes] == ["alone\n"] * 2
    # a process that did not create the folder keeps it, and none leaves its lock file
    assert not (tmp_path / "one" / ".lock").exists()


def test_an_empty_folder_is_removed_with_its_new_parents(tmp_path):
    with pytest.raises(RuntimeError), lock_folder(tmp_path / "runs" / "one"):
        raise RuntimeError
    assert not (tmp_path / "runs").exists()


def test_a_refused_lock_removes_no_folder(tmp_path, monkeypatch):
    """Another process creates and locks the folder between the check and the lock."""
    folder = tmp_path / "one"
    with lock_folder(folder):
        monkeypatch.setattr(Path, "exists", lambda self: self != folder)
        with pytest.raises(ValueError, match="another process"), lock_folder(folder):
            pass
        monkeypatch.undo()
        assert folder.is_dir()


def test_a_folder_removed_by_another_process_is_created_again(tmp_path, monkeypatch):
    folder, lock = tmp_path / "one", fcntl.flock

    def lock_what_is_gone(handle, how):
        lock(handle, how)
        monkeypatch.undo()
        folder.rmdir()

    monkeypatch.setattr(fcntl, "flock", lock_what_is_gone)
    with lock_folder(folder):
        assert folder.is_dir()


def test_an_existing_folder_is_kept(tmp_path):
    with lock_folder(tmp_path):
        pass
    assert tmp_path.is_dir()
