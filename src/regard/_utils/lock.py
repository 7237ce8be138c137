"""One writer a folder: while a process trains into a folder it holds a lock on it, and a second one is refused.

The lock is the system's own, on a file inside the folder: it ends with the process, however that ends. The file is
removed at the end; one that a killed process left is taken over by the next.
"""

from collections.abc import Iterator
from contextlib import contextmanager, suppress
from pathlib import Path
from typing import Any

from regard._utils.files import make_folder

LOCK = ".lock"
RETRY_SECONDS = 0.2
"""How long a lock is tried for: a holder that ends may have just removed its file."""


@contextmanager
def holding(folder: Path) -> Iterator[None]:
    """Within, no other process holds the folder. It is made if need be, and removed if nothing was put into it."""
    new = [one for one in (folder, *folder.parents) if not one.exists()]
    lock = _take(folder)
    try:
        yield
    finally:
        # all of it before the release: afterwards the file and the folders may be those of another process
        with suppress(OSError):
            if lock is not None:
                (folder / LOCK).unlink()
            for one in new:
                one.rmdir()
        if lock is not None:
            lock.release()


def is_unused(folder: Path) -> bool:
    """Whether nothing but a lock is in the folder."""
    return all(path.name == LOCK for path in folder.iterdir())


def _take(folder: Path) -> Any:
    """The folder's lock, held; None on a file system without locks."""
    # half as long to import as all of regard, and only training needs it
    from filelock import FileLock, Timeout

    while True:
        make_folder(folder)
        lock = FileLock(folder / LOCK, timeout=RETRY_SECONDS, fallback_to_soft=False)
        try:
            lock.acquire()
        except Timeout:
            raise ValueError(
                f"another process is training into {folder}. Wait until it ends, stop it, or choose another --out."
            ) from None
        except FileNotFoundError:
            # whoever held it removed the folder: it was new and nothing was put into it
            continue
        except OSError:
            return None
        return lock
