"""Atomic file and folder writes (temporary file, fsync, rename), JSON documents and JSON lines.

    write into a scratch folder  ->  fsync  ->  rename over the old file  ->  fsync the parent folder

The scratch folder `.<name>.<hex>.part` is next to the target, on the same file system, because a rename is atomic only
there. After kill -9 or on a full disk the target is complete, old or new. A killed process leaves its scratch folder;
`remove_scratch` removes it.
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
    """Raise ValueError if the file exists and may not be overwritten."""
    if path.is_dir():
        raise ValueError(f"{path} is a folder. Name a file in it.")
    # lexists: a link without a target counts as existing, and would be replaced
    if not overwrite and os.path.lexists(path):
        raise ValueError(
            f"{path} exists. Choose another name, or allow it with overwrite=True (--overwrite on the command line)."
        )


def make_folder(folder: Path) -> None:
    """Create a folder and its parents."""
    try:
        folder.mkdir(parents=True, exist_ok=True)
    except FileExistsError:
        raise ValueError(f"{folder} is a file, and a folder is needed. Choose another name.") from None


def write_atomic(path: Path, content: bytes, *, overwrite: bool = False) -> None:
    """Write a file atomically: a reader sees the old content or the new one, never a part."""
    check_free(path, overwrite=overwrite)
    with atomic_file(path) as scratch_path:
        scratch_path.write_bytes(content)


@contextmanager
def atomic_file(path: Path) -> Iterator[Path]:
    """Yield a path to write to; the file replaces the target at the end of the block, unless it raises."""
    check_free(path, overwrite=True)
    with scratch_beside(path) as scratch:
        yield scratch / path.name
        # the content before the name: a rename can reach the disk before the data it refers to
        sync(scratch / path.name)
        os.replace(scratch / path.name, path)
        # the entry of the new name is part of the folder, and is lost in a power cut unless the folder is flushed
        sync(path.parent)


@contextmanager
def scratch_beside(path: Path) -> Iterator[Path]:
    """A temporary folder next to a path; errors of the disk get a message that names the path."""
    make_folder(path.parent)
    # a random part, so that two processes that write the same file do not share a scratch folder
    scratch = path.with_name(f".{path.name}.{secrets.token_hex(4)}.part")
    try:
        scratch.mkdir()
        yield scratch
    except OSError as error:
        raise _explain_error(error, path) from error
    finally:
        shutil.rmtree(scratch, ignore_errors=True)


def sync(path: Path) -> None:
    """Flush a file or folder to the disk."""
    # a folder can be opened for reading only, which fsync accepts
    handle = os.open(path, os.O_RDONLY)
    try:
        os.fsync(handle)
    finally:
        os.close(handle)


def _explain_error(error: OSError, path: Path) -> OSError:
    if error.errno in (errno.ENOSPC, errno.EDQUOT):
        text = f"the disk is full: {path} was not written, and the previous content is unchanged. Free some space."
    else:
        text = f"{path} could not be written: {error.strerror or error}."
    # the same class, so that handlers of subclasses such as PermissionError still match
    explained = type(error)(text)
    explained.errno = error.errno
    return explained


@contextmanager
def atomic_folder(path: Path) -> Iterator[Path]:
    """Yield a folder to fill; it appears under its name at the end of the block, complete, unless the block raises."""
    if os.path.lexists(path):
        raise ValueError(f"{path} exists. A complete folder is never overwritten: remove it first.")
    with scratch_beside(path) as scratch:
        new_folder = scratch / path.name
        new_folder.mkdir()
        yield new_folder
        # the content must be on the disk before the name is, or a power cut could leave an empty folder
        for entry in new_folder.rglob("*"):
            sync(entry)
        sync(new_folder)
        # fails if another process has put a folder with content here in the meantime
        os.rename(new_folder, path)
        sync(path.parent)


def write_text(path: Path, content: str) -> None:
    """Replace a file's content atomically, as UTF-8 with Unix line ends."""
    write_atomic(path, content.encode(), overwrite=True)


def remove_folder(path: Path) -> None:
    """Remove a folder atomically: it is renamed first, so that no half-deleted folder has its name."""
    scratch = path.with_name(f".{path.name}.{secrets.token_hex(4)}.part")
    os.rename(path, scratch)
    shutil.rmtree(scratch, ignore_errors=True)


def find_scratch(folder: Path, names: Iterable[str] = ("*",)) -> list[Path]:
    """The scratch folders that killed writers of these names left behind."""
    # the exact form of a scratch name, so that other hidden folders that end in .part remain
    return [scratch for name in names for scratch in folder.glob(f".{name}.{'[0-9a-f]' * 8}.part")]


def remove_scratch(folder: Path, names: Iterable[str] = ("*",)) -> None:
    """Remove the scratch folders that killed writers of these names left behind."""
    for scratch in find_scratch(folder, names):
        shutil.rmtree(scratch, ignore_errors=True)


def save_json(path: Path, value: Any) -> None:
    """Write a JSON document atomically; NaN and infinity raise ValueError, because JSON has no form for them."""
    try:
        text = json.dumps(value, indent=2, ensure_ascii=False, allow_nan=False)
    except (TypeError, ValueError) as error:
        raise ValueError(f"{path.name} cannot be written as JSON: {error}.") from None
    write_text(path, text + "\n")


def load_json(path: Path) -> Any:
    """Read a JSON document."""
    text = read_text(path)
    try:
        return json.loads(text)
    except (ValueError, RecursionError) as error:
        raise ValueError(f"{path} is not JSON: {error}. It was cut off or edited; restore it from a copy.") from None


def read_text(path: Path) -> str:
    """Read a UTF-8 text file."""
    if path.is_dir():
        raise ValueError(f"{path} is a folder, expected a file.")
    try:
        return path.read_text(encoding="utf-8")
    except FileNotFoundError:
        where = "the folder does not exist" if not path.parent.is_dir() else f"{path.parent} has no such file"
        raise FileNotFoundError(f"{path} is missing: {where}. Check the name, or train first.") from None
    except UnicodeDecodeError as error:
        raise ValueError(f"{path} is not UTF-8 text (byte {error.start}). It belongs to something else.") from None


def append_line(path: Path, record: dict[str, Any]) -> None:
    """Append one JSON object as a line."""
    # flushed at the end of the block: a killed process can truncate only the last line
    with path.open("a", encoding="utf-8") as file:
        file.write(json.dumps(record, ensure_ascii=False, allow_nan=False) + "\n")


def read_lines(path: Path) -> list[dict[str, Any]]:
    """The objects of a file of JSON lines; a truncated last line is skipped."""
    records: list[dict[str, Any]] = []
    # not splitlines(), which also splits at separators inside JSON strings, such as U+2028
    lines = read_text(path).removesuffix("\n").split("\n")
    for number, line in enumerate(lines, start=1):
        try:
            record = json.loads(line)
        except (ValueError, RecursionError) as error:
            # in the middle of a file this is damage, not an interrupted write
            if number < len(lines):
                raise ValueError(f"{path}, line {number} is not JSON: {error}.") from None
            # a process killed while it appended leaves a truncated last line
            break
        if not isinstance(record, dict):
            raise ValueError(f"{path}, line {number} is no JSON object. The file belongs to something else.")
        records.append(record)
    return records


def cut_lines(path: Path, step: int) -> None:
    """Remove the records of later steps, so that a resumed run does not write them twice."""
    if not path.exists():
        return
    records = [record for record in read_lines(path) if record.get("step", 0) <= step]
    write_text(path, "".join(json.dumps(record, ensure_ascii=False) + "\n" for record in records))
