"""Files that are there whole or not at all, and never written over unless asked."""

import os
import secrets
from pathlib import Path


def check_free(path: Path, *, overwrite: bool) -> None:
    """Refuse a file that exists, before any work is done for it."""
    if path.is_dir():
        raise ValueError(f"{path} is a folder. Name a file in it.")
    if not overwrite and os.path.lexists(path):
        raise ValueError(
            f"{path} exists. Choose another name, or allow it with overwrite=True (--overwrite on the command line)."
        )


def write_atomic(path: Path, content: bytes, *, overwrite: bool = False) -> None:
    """Write beside the file, then rename: a reader sees the old file or the new one, never half of one."""
    check_free(path, overwrite=overwrite)
    make_folder(path.parent)
    beside = path.with_name(f".{secrets.token_hex(4)}")
    try:
        beside.write_bytes(content)
        os.replace(beside, path)
    finally:
        beside.unlink(missing_ok=True)


def make_folder(folder: Path) -> None:
    """A folder to write into, or a sentence."""
    try:
        folder.mkdir(parents=True, exist_ok=True)
    except FileExistsError:
        raise ValueError(f"{folder} is a file, and a folder is needed. Choose another name.") from None
