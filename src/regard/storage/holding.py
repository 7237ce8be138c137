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
    handle = _take(folder)
    try:
        yield
    finally:
        # while it is still held, so that nobody else's goes
        with suppress(OSError):
            for one in made:
                one.rmdir()
        if handle is not None:
            os.close(handle)


def _take(folder: Path) -> int | None:
    """The folder, locked; nothing where there are no locks."""
    while True:
        make_folder(folder)
        if fcntl is None:
            return None
        try:
            handle = os.open(folder, os.O_RDONLY)
        except FileNotFoundError:
            continue
        try:
            fcntl.flock(handle, fcntl.LOCK_EX | fcntl.LOCK_NB)
        except OSError as error:
            os.close(handle)
            if isinstance(error, BlockingIOError):
                raise ValueError(
                    f"another process is training into {folder}. Wait until it ends, stop it, or choose another --out."
                ) from None
            # a file system that knows no locks
            return None
        if _is_still(handle, folder):
            return handle
        # whoever held it before took it away
        os.close(handle)


def _is_still(handle: int, folder: Path) -> bool:
    with suppress(FileNotFoundError):
        return os.path.samestat(os.fstat(handle), folder.stat())
    return False
