"""Folders that are there whole or not at all, as files are, and what a killed writer left of either.

What is being written lies in a scratch folder `.<name>.<hex>.part` beside its place; a killed process leaves it there.
"""

import os
import secrets
import shutil
from collections.abc import Iterable, Iterator
from contextlib import contextmanager
from pathlib import Path

from regard.contracts import write_atomic
from regard.contracts.files import scratch_beside, sync


@contextmanager
def creating_folder(path: Path) -> Iterator[Path]:
    """A folder to fill; leaving the block puts it under its name with all that is in it, an error leaves nothing."""
    if os.path.lexists(path):
        raise ValueError(f"{path} exists. A complete folder is never written over: remove it first.")
    with scratch_beside(path) as scratch:
        filled = scratch / path.name
        filled.mkdir()
        yield filled
        for file in filled.iterdir():
            sync(file)
        sync(filled)
        os.rename(filled, path)
        sync(path.parent)


def write_text(path: Path, content: str) -> None:
    """Replace a file's content, in UTF-8 with plain line ends."""
    write_atomic(path, content.encode(), overwrite=True)


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
