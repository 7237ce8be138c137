"""One writer a folder: whoever trains into it holds it, and a second one is told so.

The lock is the system's own, on the folder itself: no file is left behind, and a process that is killed lets go.
"""

import os
from collections.abc import Iterator
from contextlib import contextmanager, suppress
from pathlib import Path

from regard.contracts import make_folder

try:
    import fcntl
except ImportError:  # not on Windows, where no lock is held
    fcntl = None  # type: ignore[assignment]


@contextmanager
def holding(folder: Path) -> Iterator[None]:
    """Within, no other process holds the folder. It is made if need be, and goes again if nothing was put into it."""
    made = [one for one in (folder, *folder.parents) if not one.exists()]
    make_folder(folder)
    try:
        with _locked(folder):
            yield
    finally:
        with suppress(OSError):
            for one in made:
                one.rmdir()


@contextmanager
def _locked(folder: Path) -> Iterator[None]:
    if fcntl is None:
        yield
        return
    handle = os.open(folder, os.O_RDONLY)
    try:
        _lock(handle, folder)
        yield
    finally:
        os.close(handle)


def _lock(handle: int, folder: Path) -> None:
    try:
        fcntl.flock(handle, fcntl.LOCK_EX | fcntl.LOCK_NB)
    except BlockingIOError:
        raise ValueError(
            f"another process is training into {folder}. Wait until it ends, stop it, or choose another --out."
        ) from None
    except OSError:
        # a file system without locks: nothing to hold
        return
