"""Files that are there whole or not at all, also after kill -9 and on a full disk; never written over unless asked.

    write beside  ->  fsync  ->  rename over the old one  ->  fsync the folder

Beside means a scratch folder `.<name>.<hex>.part` next to the target.
"""

import errno
import os
import secrets
import shutil
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path


def check_free(path: Path, *, overwrite: bool) -> None:
    """Refuse a file that exists, before any work is done for it."""
    if path.is_dir():
        raise ValueError(f"{path} is a folder. Name a file in it.")
    if not overwrite and os.path.lexists(path):
        raise ValueError(
            f"{path} exists. Choose another name, or allow it with overwrite=True (--overwrite on the command line)."
        )


def make_folder(folder: Path) -> None:
    """A folder to write into, or a sentence."""
    try:
        folder.mkdir(parents=True, exist_ok=True)
    except FileExistsError:
        raise ValueError(f"{folder} is a file, and a folder is needed. Choose another name.") from None


def write_atomic(path: Path, content: bytes, *, overwrite: bool = False) -> None:
    """Write a whole file: a reader sees the old one or the new one, never half of one."""
    check_free(path, overwrite=overwrite)
    with replacing(path) as beside:
        beside.write_bytes(content)


@contextmanager
def replacing(path: Path) -> Iterator[Path]:
    """A place to write the new file; leaving the block puts it under its name, an error leaves the old one."""
    check_free(path, overwrite=True)
    with scratch_beside(path) as scratch:
        yield scratch / path.name
        sync(scratch / path.name)
        os.replace(scratch / path.name, path)
        sync(path.parent)


@contextmanager
def scratch_beside(path: Path) -> Iterator[Path]:
    """A folder next to a path for as long as it is written; the disk's errors become sentences."""
    make_folder(path.parent)
    scratch = path.with_name(f".{path.name}.{secrets.token_hex(4)}.part")
    try:
        scratch.mkdir()
        yield scratch
    except OSError as error:
        raise _sentence(error, path) from error
    finally:
        shutil.rmtree(scratch, ignore_errors=True)


def sync(path: Path) -> None:
    """Wait until the disk has it."""
    handle = os.open(path, os.O_RDONLY)
    try:
        os.fsync(handle)
    finally:
        os.close(handle)


def _sentence(error: OSError, path: Path) -> OSError:
    if error.errno in (errno.ENOSPC, errno.EDQUOT):
        text = f"the disk is full: {path} was not written, what was there before is kept. Free some space."
    else:
        text = f"{path} could not be written: {error.strerror or error}."
    said = type(error)(text)
    said.errno = error.errno
    return said
