"""Folder lock: one process at a time trains into a folder; a second one gets an error.

The lock is the operating system's own, on a file inside the folder, so it ends with the process, even after kill -9.
The file is removed on release. A file that a killed process left behind carries no lock and is reused.
"""

from collections.abc import Iterator
from contextlib import contextmanager, suppress
from pathlib import Path
from typing import Any

from regard._utils.files import make_folder

LOCK = ".lock"
RETRY_SECONDS = 0.2
"""How long to try: a process that is ending may have just removed the file."""


@contextmanager
def lock_folder(folder: Path) -> Iterator[None]:
    """Hold the lock of a folder. The folder is created if needed, and removed again if it stayed empty."""
    # innermost first, so that each is empty when `rmdir` reaches it
    new_folders = [path for path in (folder, *folder.parents) if not path.exists()]
    lock = _acquire(folder)
    try:
        yield
    finally:
        # clean up before the release: afterwards the file and the folders may belong to another process
        with suppress(OSError):
            if lock is not None:
                (folder / LOCK).unlink()
            for path in new_folders:
                path.rmdir()
        if lock is not None:
            lock.release()


@contextmanager
def lock_if_free(folder: Path) -> Iterator[bool]:
    """Hold the lock of an existing folder and yield True; yield False if another process has it or there are none."""
    try:
        lock = _acquire(folder)
    # held by another process
    except ValueError:
        lock = None
    try:
        yield lock is not None
    finally:
        if lock is not None:
            with suppress(OSError):
                (folder / LOCK).unlink()
            lock.release()


def is_unused(folder: Path) -> bool:
    """True if the folder contains nothing but a lock file."""
    return all(path.name == LOCK for path in folder.iterdir())


def _acquire(folder: Path) -> Any:
    """The acquired lock of the folder, or None on a file system without locks."""
    # imported here because the import takes half as long as that of all of regard, and only training needs it
    from filelock import FileLock, Timeout

    while True:
        make_folder(folder)
        # a soft lock is a mere file, which a killed process would leave as a permanent lock
        lock = FileLock(folder / LOCK, timeout=RETRY_SECONDS, fallback_to_soft=False)
        try:
            lock.acquire()
        except Timeout:
            raise ValueError(
                f"another process is training into {folder}. Wait until it ends, stop it, or choose another --out."
            ) from None
        except FileNotFoundError:
            # the previous holder had created the folder and removed it again between our two calls
            continue
        except OSError:
            # no locks, as on some network file systems: training is still possible, without protection
            return None
        return lock
