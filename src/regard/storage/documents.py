"""JSON documents and JSON lines: the plain half of a checkpoint."""

import json
from pathlib import Path
from typing import Any

from regard.storage.files import write_text


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
