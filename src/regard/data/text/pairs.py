r"""Sentence pairs, and the readers of parallel files.

A sentence and its translation, and a set of them that says what was left out of it.

Pairs from files: two parallel files, a table with tabs, or JSON lines; a name that ends in .gz is unpacked.

Text is UTF-8, with or without a byte order mark. A line ends at \n or \r\n and nowhere else, so that line n of one
file is line n of the other; a last line without an end counts. A pair with an empty side is dropped and counted.
"""

import gzip
import json
import zlib
from collections.abc import Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass, field
from os import PathLike
from pathlib import Path
from typing import overload

Span = tuple[int, int, int, int]
"""Characters [a, b) of the source stand for characters [c, d) of the target: (a, b, c, d)."""


@dataclass(frozen=True)
class Pair:
    """A source and its target; embedded sets also know which spans translate each other, and the pair's kind."""

    source: str
    target: str
    spans: tuple[Span, ...] | None = None
    kind: str | None = None

    @property
    def links(self) -> tuple[tuple[int, int], ...] | None:
        """The true alignment, where it is known: every (source character, target character) of linked spans."""
        if self.spans is None:
            return None
        return tuple((i, j) for a, b, c, d in self.spans for i in range(a, b) for j in range(c, d))


def dropped_sentence(dropped: Mapping[str, int], what: str) -> str:
    """`dropped 3 pairs: 2 with an empty source, 1 with an empty target.`, or nothing where nothing was dropped."""
    reasons = ", ".join(f"{count:,} {reason}" for reason, count in dropped.items() if count)
    return f"dropped {sum(dropped.values()):,} {what}: {reasons}." if reasons else ""


@dataclass(frozen=True)
class Pairs(Sequence[Pair]):
    """The pairs of a file, and how many were dropped for which reason."""

    pairs: tuple[Pair, ...]
    dropped: Mapping[str, int] = field(default_factory=dict)

    def __len__(self) -> int:
        return len(self.pairs)

    def __iter__(self) -> Iterator[Pair]:
        return iter(self.pairs)

    @overload
    def __getitem__(self, index: int) -> Pair: ...

    @overload
    def __getitem__(self, index: slice) -> tuple[Pair, ...]: ...

    def __getitem__(self, index: int | slice) -> Pair | tuple[Pair, ...]:
        return self.pairs[index]

    @property
    def report(self) -> str:
        """What was dropped, as a sentence; empty where nothing was."""
        return dropped_sentence(self.dropped, "pairs")


Name = str | PathLike[str]


def read_parallel(source: Name, target: Name) -> Pairs:
    """Line n of the one file translates line n of the other; pairs with an empty side are left out."""
    sources, targets = read_partners(source, target)
    return _pairs(zip(sources, targets, strict=True), f"{source} and {target}")


def read_partners(source: Name, target: Name) -> tuple[list[str], list[str]]:
    """The lines of two files that have as many, empty ones among them."""
    sources, targets = read_lines(source), read_lines(target)
    if len(sources) != len(targets):
        longer, lines = (source, sources) if len(sources) > len(targets) else (target, targets)
        first = min(len(sources), len(targets))
        raise ValueError(
            f"{source} has {_counted(len(sources), 'line')} and {target} has {len(targets)}. "
            f"Line {first + 1} of {longer} is the first without a partner: {_excerpt(lines[first])}. "
            f"Parallel files need a line for every line."
        )
    return sources, targets


def read_tsv(path: Name, source_column: int = 0, target_column: int = 1) -> Pairs:
    """Two columns of a table with tabs between its cells, counted from 0; quotes have no meaning."""
    needed = max(source_column, target_column) + 1
    if min(source_column, target_column) < 0:
        raise ValueError(f"columns are counted from 0, but {min(source_column, target_column)} was asked for.")
    cells = [line.split("\t") for line in read_lines(path)]
    for number, row in enumerate(cells, start=1):
        if len(row) < needed and row != [""]:
            raise ValueError(
                f"line {number} of {path} has {_counted(len(row), 'column')}, and column {needed} is asked for "
                f"(number {needed - 1}, counted from 0): {_excerpt(row[0])}. Cells are parted by tabs."
            )
    rows = [row if row != [""] else [""] * needed for row in cells]
    return _pairs(((row[source_column], row[target_column]) for row in rows), str(path))


def read_json_lines(path: Name, source_key: str = "source", target_key: str = "target") -> Pairs:
    """One JSON object a line, with a string under either key; an empty line counts as an empty pair."""
    found = []
    for number, line in enumerate(read_lines(path), start=1):
        if not line.strip():
            found.append(("", ""))
            continue
        value = _parse(line, f"line {number} of {path}")
        source, target = (_string(value, key, f"line {number} of {path}") for key in (source_key, target_key))
        found.append((source, target))
    return _pairs(found, str(path))


def read_lines(path: Name) -> list[str]:
    """The lines of a text file, or a sentence that says what is wrong with it."""
    content = read_bytes(Path(path))
    try:
        text = content.decode("utf-8-sig")
    except UnicodeDecodeError as error:
        # the codec counts from behind a byte order mark
        place = error.start + len(content) - len(error.object)
        number = content.count(b"\n", 0, place) + 1
        column = place - content.rfind(b"\n", 0, place)
        raise ValueError(
            f"line {number} of {path} is not UTF-8: byte {column} of the line is 0x{content[place]:02x}. "
            f"Save the file as UTF-8."
        ) from None
    if not text:
        raise ValueError(f"{path} is empty. Give a file with at least one line.")
    lines = text.split("\n")
    if lines[-1] == "":
        lines.pop()
    return [line.removesuffix("\r") for line in lines]


def read_old_lines(path: Name) -> tuple[list[str], int]:
    """The lines of a file some of which are older than UTF-8 and are read as Latin-1, and how many those are."""
    lines = read_bytes(Path(path)).removesuffix(b"\n").split(b"\n")
    found, old = [], 0
    for line in lines:
        try:
            text = line.decode("utf-8-sig")
        except UnicodeDecodeError:
            text, old = line.decode("latin-1"), old + 1
        found.append(text.removesuffix("\r"))
    if found == [""]:
        raise ValueError(f"{path} is empty. Give a file with at least one line.")
    check_is_text(found, path)
    return found, old


def check_is_text(lines: Iterable[str], path: Name) -> None:
    """Refuse what no text has: a byte 0, of which UTF-16 and files of other kinds have many."""
    for number, line in enumerate(lines, start=1):
        if "\0" in line:
            raise ValueError(f"line {number} of {path} has a byte 0: it is UTF-16, or no text. Save it as UTF-8.")


def read_bytes(path: Path) -> bytes:
    """The bytes of a file, unpacked where its name ends in .gz."""
    if path.is_dir():
        raise ValueError(f"{path} is a folder. Name a file in it.")
    if not path.exists():
        raise FileNotFoundError(f"there is no file {path}. Look at the name and the folder.")
    if path.suffix != ".gz":
        return path.read_bytes()
    try:
        with gzip.open(path) as file:
            return file.read()
    except (EOFError, zlib.error, gzip.BadGzipFile) as error:
        raise ValueError(f"{path} is named .gz but cannot be unpacked ({error}). Is it whole?") from None


def _pairs(texts: Iterable[tuple[str, str]], where: str) -> Pairs:
    """Pairs of stripped texts, without those that have an empty side."""
    kept: list[Pair] = []
    dropped = {"with an empty source": 0, "with an empty target": 0, "with both sides empty": 0}
    for source, target in ((source.strip(), target.strip()) for source, target in texts):
        if source and target:
            kept.append(Pair(source, target))
        elif source or target:
            dropped["with an empty target" if source else "with an empty source"] += 1
        else:
            dropped["with both sides empty"] += 1
    found = Pairs(tuple(kept), {reason: count for reason, count in dropped.items() if count})
    if not kept:
        raise ValueError(f"{where} hold no pair to learn from: {found.report}")
    return found


def _parse(line: str, where: str) -> dict[str, object]:
    try:
        value = json.loads(line)
    except (ValueError, RecursionError) as error:
        raise ValueError(f"{where} is not JSON ({error}): {_excerpt(line)}") from None
    if not isinstance(value, dict):
        raise ValueError(f'{where} is no object such as {{"source": .., "target": ..}}: {_excerpt(line)}')
    return value


def _string(value: dict[str, object], key: str, where: str) -> str:
    if key not in value:
        raise ValueError(f"{where} has no key {key!r}. Its keys: {', '.join(map(repr, value)) or 'none'}.")
    text = value[key]
    if not isinstance(text, str):
        raise ValueError(f"{where} has a {type(text).__name__} under {key!r}, and a string is needed.")
    try:
        text.encode()
    except UnicodeEncodeError as error:
        raise ValueError(f"{where} has half a character under {key!r}: \\u{ord(text[error.start]):04x}.") from None
    return text


def _counted(number: int, what: str) -> str:
    return f"{number} {what}" if number == 1 else f"{number} {what}s"


def _excerpt(text: str, width: int = 40) -> str:
    return repr(text if len(text) <= width else text[:width] + "..")
