"""Atomic file writes (temporary file, fsync, rename), folders, JSON documents and JSON lines.

Files that are there whole or not at all, also after kill -9 and on a full disk; never written over unless asked.

    write beside  ->  fsync  ->  rename over the old one  ->  fsync the folder

Beside means a scratch folder `.<name>.<hex>.part` next to the target.

Folders that are there whole or not at all, as files are, and what a killed writer left of either.

What is being written lies in a scratch folder `.<name>.<hex>.part` beside its place; a killed process leaves it there.

JSON documents and JSON lines: the plain half of a checkpoint.
"""

import errno
import json
import os
import secrets
import shutil
from collections.abc import Iterable, Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import Any


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


def save_json(path: Path, value: Any) -> None:
    """Write a document whole or not at all; numbers that are not finite are refused, for JSON has none."""
    try:
        text = json.dumps(value, indent=2, ensure_ascii=False, allow_nan=False)
    except (TypeError, ValueError) as error:
        raise ValueError(f"{path.name} cannot be written as JSON: {error}.") from None
    write_text(path, text + "\n")


def load_json(path: Path) -> Any:
    """Read a document, or say what is wrong with it."""
    text = read_text(path)
    try:
        return json.loads(text)
    except (ValueError, RecursionError) as error:
        raise ValueError(f"{path} is not JSON: {error}. It was cut off or edited; restore it from a copy.") from None


def read_text(path: Path) -> str:
    """Read a text file, or say what is wrong with it."""
    if path.is_dir():
        raise ValueError(f"{path} is a folder, and a file is expected there.")
    try:
        return path.read_text(encoding="utf-8")
    except FileNotFoundError:
        where = "the folder does not exist" if not path.parent.is_dir() else f"{path.parent} has no such file"
        raise FileNotFoundError(f"{path} is missing: {where}. Check the name, or train first.") from None
    except UnicodeDecodeError as error:
        raise ValueError(f"{path} is not UTF-8 text (byte {error.start}). It belongs to something else.") from None


def append_line(path: Path, record: dict[str, Any]) -> None:
    """Add one JSON object as a line."""
    with path.open("a", encoding="utf-8") as file:
        file.write(json.dumps(record, ensure_ascii=False, allow_nan=False) + "\n")


def read_lines(path: Path) -> list[dict[str, Any]]:
    """The objects of a file of JSON lines; a last line that was cut off is left out."""
    records: list[dict[str, Any]] = []
    lines = read_text(path).splitlines()
    for number, line in enumerate(lines, start=1):
        try:
            record = json.loads(line)
        except (ValueError, RecursionError) as error:
            if number < len(lines):
                raise ValueError(f"{path}, line {number} is not JSON: {error}.") from None
            break
        if not isinstance(record, dict):
            raise ValueError(f"{path}, line {number} is no JSON object. The file belongs to something else.")
        records.append(record)
    return records


def cut_lines(path: Path, step: int) -> None:
    """Drop the lines of later steps, so that a resumed run writes none of them twice."""
    if not path.exists():
        return
    kept = [record for record in read_lines(path) if record.get("step", 0) <= step]
    write_text(path, "".join(json.dumps(record, ensure_ascii=False) + "\n" for record in kept))
