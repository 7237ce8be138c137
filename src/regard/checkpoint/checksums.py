"""SHA-256 checksums of the files of a run: a damaged file is refused instead of used.

    tensor files              in the header, over the whole file with 64 zeros in place of the checksum
    config.json, state.json   in the entry `sha256`, over all other entries but labels and the locations of files
    tokenizers                in the entry `files` of config.json, because they are files of another library

A file is replaced together with its own checksum by one rename, so that a process killed between two writes leaves no
file that its checksum refuses. A file without a checksum, from an earlier version or another program, is accepted.
"""

import json
import os
import re
from collections.abc import Mapping
from hashlib import sha256
from pathlib import Path
from typing import Any

from regard._utils import load_json, save_json

KEY = "sha256"
VARIABLE = "REGARD_VERIFY"
"""With the value 0 in this environment variable, no checksum is compared."""
PLACEHOLDER = "0" * 64

UNSIGNED = (KEY, "regard", "task", "corpus", "recipe")
"""Entries outside the checksum of a JSON file: labels, and references to a user's files, which may be moved."""

# the header of a safetensors file is JSON, and our entry in it is JSON text, whose quotes are escaped
_IN_HEADER = re.compile(rb'\\"' + KEY.encode() + rb'\\": \\"([0-9a-f]{64})\\"')
_BLOCK = 1 << 20


def is_enabled(verify: bool = True) -> bool:
    """Whether checksums are compared: not with `verify=False`, nor with 0 in the environment variable."""
    return verify and os.environ.get(VARIABLE) != "0"


def sign_tensor_file(path: Path) -> None:
    """Replace the placeholder in the header by the checksum of the file."""
    with path.open("r+b") as file:
        match = _find_in_header(file)
        assert match is not None, "the header has a placeholder"
        digest = _digest_without(file, match)
        file.seek(match[0])
        file.write(digest.encode())


def verify_tensor_file(path: Path) -> None:
    """Raise ValueError if a file that has a checksum differs from it."""
    with path.open("rb") as file:
        match = _find_in_header(file)
        # a checksum that is no checksum is damage too
        if match is None or _digest_without(file, match) != match[1]:
            raise ValueError(damaged(path))


def damaged(path: Path) -> str:
    """The message about a file that differs from its checksum."""
    return (
        f"{path} was damaged or changed after it was saved: its SHA-256 is not the recorded one. Restore it from a "
        f"copy, or load it anyway with verify=False ({VARIABLE}=0 on the command line)."
    )


def _find_in_header(file: Any) -> tuple[int, str] | None:
    """The position and the value of the checksum in a safetensors file."""
    # 8 bytes are the length of the header, in little-endian order; the file was opened by safetensors, which checks it
    length = int.from_bytes(file.read(8), "little")
    match = _IN_HEADER.search(file.read(length))
    return None if match is None else (8 + match.start(1), match[1].decode())


def _digest_without(file: Any, match: tuple[int, str]) -> str:
    """The SHA-256 of the file with the placeholder in place of the checksum."""
    position, value = match
    file.seek(0)
    digest = sha256(file.read(position))
    digest.update(PLACEHOLDER.encode())
    file.seek(position + len(value))
    # in blocks: a file may be larger than the memory
    while block := file.read(_BLOCK):
        digest.update(block)
    return digest.hexdigest()


def digest_json(document: Mapping[str, Any]) -> str:
    """The SHA-256 of a document; the order of the entries and white space do not count."""
    content = {name: _without_paths(value) for name, value in document.items() if name not in UNSIGNED}
    return sha256(json.dumps(content, sort_keys=True).encode()).hexdigest()


def _without_paths(value: Any) -> Any:
    # the files of the data have checksums of their own, and may be moved
    if isinstance(value, Mapping):
        return {name: _without_paths(inner) for name, inner in value.items()}
    return None if isinstance(value, str) and ("/" in value or "\\" in value) else value


def save_signed_json(path: Path, document: Mapping[str, Any]) -> None:
    """Write a JSON document with its checksum."""
    save_json(path, {**document, KEY: digest_json(document)})


def verify_json(path: Path, document: Mapping[str, Any]) -> None:
    """Raise ValueError if a document differs from its checksum."""
    if KEY in document and document[KEY] != digest_json(document):
        raise ValueError(
            f"{path} was damaged or changed after it was saved: its SHA-256 is not the recorded one. Restore it from a "
            f"copy, or remove its entry {KEY!r} if the change is deliberate."
        )


def digest_file(path: Path) -> str:
    """The SHA-256 of a small file."""
    return sha256(path.read_bytes()).hexdigest()


def verify_files(folder: Path, digests: Any) -> None:
    """Raise ValueError if one of the files in a folder differs from its checksum."""
    if not isinstance(digests, dict):
        raise ValueError(f"{folder / 'config.json'} has a {type(digests).__name__} as files, expected an object.")
    for name, digest in digests.items():
        path = folder / name
        # other places are none of the run's
        if path.parent == folder and path.is_file() and digest_file(path) != digest:
            raise ValueError(damaged(path))


def load_signed_json(path: Path) -> Any:
    """Read a JSON document, and compare its checksum if it has one."""
    document = load_json(path)
    if isinstance(document, dict) and is_enabled():
        verify_json(path, document)
    return document
