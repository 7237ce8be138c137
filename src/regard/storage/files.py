"""Files and folders that are there whole or not at all, also after kill -9 and on a full disk.

    write beside  ->  fsync  ->  rename over the old one  ->  fsync the folder

Beside means a scratch folder `.<name>.<hex>.part` next to the target; what a killed process leaves of it, `tidy`
removes.
"""

import errno
import os
import secrets
import shutil
from collections.abc import Iterable, Iterator
from contextlib import contextmanager
from pathlib import Path

from regard.contracts import make_folder


@contextmanager
def replacing(path: Path) -> Iterator[Path]:
    """A place to write the new file; leaving the block puts it under its name, an error leaves the old one."""
    if path.is_dir():
        raise ValueError(f"{path} is a folder, and a file is to be written there. Choose another name.")
    with _scratch(path) as scratch:
        yield scratch / path.name
        _sync(scratch / path.name)
        os.replace(scratch / path.name, path)
        _sync(path.parent)


@contextmanager
def creating_folder(path: Path) -> Iterator[Path]:
    """A folder to fill; leaving the block puts it under its name with all that is in it, an error leaves nothing."""
    if os.path.lexists(path):
        raise ValueError(f"{path} exists. A complete folder is never written over: remove it first.")
    with _scratch(path) as scratch:
        filled = scratch / path.name
        filled.mkdir()
        yield filled
        for file in filled.iterdir():
            _sync(file)
        _sync(filled)
        os.rename(filled, path)
        _sync(path.parent)


def write_bytes(path: Path, content: bytes) -> None:
    """Replace a file's content."""
    with replacing(path) as beside:
        beside.write_bytes(content)


def write_text(path: Path, content: str) -> None:
    """Replace a file's content, in UTF-8 with plain line ends."""
    write_bytes(path, content.encode())


def remove_folder(path: Path) -> None:
    """Remove a complete folder: under its name it is there whole or not at all, even while it goes."""
    gone = path.with_name(f".{path.name}.{secrets.token_hex(4)}.part")
    os.rename(path, gone)
    shutil.rmtree(gone, ignore_errors=True)


def tidy(folder: Path, names: Iterable[str] = ("*",)) -> None:
    """Remove what a killed writer of these names left beside them."""
    for name in names:
        for left in folder.glob(f".{name}.{'[0-9a-f]' * 8}.part"):
            shutil.rmtree(left, ignore_errors=True)


@contextmanager
def _scratch(path: Path) -> Iterator[Path]:
    make_folder(path.parent)
    scratch = path.with_name(f".{path.name}.{secrets.token_hex(4)}.part")
    try:
        scratch.mkdir()
        yield scratch
    except OSError as error:
        raise _sentence(error, path) from error
    finally:
        shutil.rmtree(scratch, ignore_errors=True)


def _sentence(error: OSError, path: Path) -> OSError:
    if error.errno in (errno.ENOSPC, errno.EDQUOT):
        text = f"the disk is full: {path} was not written, what was there before is kept. Free some space."
    else:
        text = f"{path} could not be written: {error.strerror or error}."
    said = type(error)(text)
    said.errno = error.errno
    return said


def _sync(path: Path) -> None:
    """Wait until the disk has it."""
    handle = os.open(path, os.O_RDONLY)
    try:
        os.fsync(handle)
    finally:
        os.close(handle)
