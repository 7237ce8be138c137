r"""Sentence pairs, and readers of parallel files: two files of lines, a table with tabs, or JSON lines.

A file whose name ends in .gz is decompressed. Text is UTF-8, with or without a byte order mark. Only \n and \r\n end a
line, so that line n of one file is line n of the other; a last line without a line end counts. A pair with an empty
side is dropped and counted.
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
"""(a, b, c, d): characters [a, b) of the source are aligned with characters [c, d) of the target."""


@dataclass(frozen=True)
class Pair:
    """A source and its target; synthetic pairs also have the aligned spans and the kind of the pair."""

    source: str
    target: str
    spans: tuple[Span, ...] | None = None
    kind: str | None = None

    @property
    def links(self) -> tuple[tuple[int, int], ...] | None:
        """The true alignment if it is known: all (source character, target character) of aligned spans."""
        if self.spans is None:
            return None
        # spans are half-open; every character of one side is linked to every character of the other
        return tuple((i, j) for a, b, c, d in self.spans for i in range(a, b) for j in range(c, d))


def dropped_sentence(dropped: Mapping[str, int], what: str) -> str:
    """`dropped 3 pairs: 2 with an empty source, 1 with an empty target.`, or an empty text."""
    reasons = ", ".join(f"{count:,} {reason}" for reason, count in dropped.items() if count)
    return f"dropped {sum(dropped.values()):,} {what}: {reasons}." if reasons else ""


@dataclass(frozen=True)
class Pairs(Sequence[Pair]):
    """The pairs of a file, and the number that was dropped by reason."""

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
        """How many pairs were dropped and why; empty if none was."""
        return dropped_sentence(self.dropped, "pairs")


Name = str | PathLike[str]


def read_parallel(source: Name, target: Name) -> Pairs:
    """Read two files, where line n of one is the translation of line n of the other."""
    sources, targets = read_partners(source, target)
    return _pairs(zip(sources, targets, strict=True), f"{source} and {target}")


def read_partners(source: Name, target: Name) -> tuple[list[str], list[str]]:
    """The lines of two files of equal length, including empty lines."""
    # both files are read in full before pairing: a difference in length may come from one missing line anywhere
    sources, targets = read_lines(source), read_lines(target)
    if len(sources) != len(targets):
        longer, lines = (source, sources) if len(sources) > len(targets) else (target, targets)
        first = min(len(sources), len(targets))
        raise ValueError(
            f"{source} has {_counted(len(sources), 'line')} and {target} has {len(targets)}. "
            f"Line {first + 1} of {longer} is the first without a partner: {_excerpt(lines[first])}. "
            f"Parallel files have the same number of lines."
        )
    return sources, targets


def read_tsv(path: Name, source_column: int = 0, target_column: int = 1) -> Pairs:
    """Read two columns, counted from 0, of a table with tab-separated cells; quotes have no special meaning."""
    needed = max(source_column, target_column) + 1
    if min(source_column, target_column) < 0:
        raise ValueError(f"columns are counted from 0, but one of the columns is {min(source_column, target_column)}.")
    cells = [line.split("\t") for line in read_lines(path)]
    for number, row in enumerate(cells, start=1):
        # "".split gives one empty cell: an empty line counts as an empty pair, which is dropped and counted
        if len(row) < needed and row != [""]:
            raise ValueError(
                f"line {number} of {path} has {_counted(len(row), 'column')}, but column {needed} is needed "
                f"(number {needed - 1}, counted from 0): {_excerpt(row[0])}. Separate cells by tabs."
            )
    # empty lines get the needed number of cells, so that the columns can be indexed
    rows = [row if row != [""] else [""] * needed for row in cells]
    return _pairs(((row[source_column], row[target_column]) for row in rows), str(path))


def read_json_lines(path: Name, source_key: str = "source", target_key: str = "target") -> Pairs:
    """Read one JSON object per line, with a string under each key; an empty line counts as an empty pair."""
    texts = []
    for number, line in enumerate(read_lines(path), start=1):
        # kept as an empty pair, so that the report counts it
        if not line.strip():
            texts.append(("", ""))
            continue
        value = _parse(line, f"line {number} of {path}")
        source, target = (_string(value, key, f"line {number} of {path}") for key in (source_key, target_key))
        texts.append((source, target))
    return _pairs(texts, str(path))


def read_lines(path: Name) -> list[str]:
    """The lines of a UTF-8 file; the error for another encoding names the line and the byte."""
    content = read_bytes(Path(path))
    try:
        # utf-8-sig: a byte order mark at the beginning is not part of the first line
        text = content.decode("utf-8-sig")
    except UnicodeDecodeError as error:
        # the codec counts from after the byte order mark
        position = error.start + len(content) - len(error.object)
        number = content.count(b"\n", 0, position) + 1
        # counted from 1, also on the first line, where rfind returns -1
        column = position - content.rfind(b"\n", 0, position)
        raise ValueError(
            f"line {number} of {path} is not UTF-8: byte {column} of the line is 0x{content[position]:02x}. "
            f"Save the file as UTF-8."
        ) from None
    if not text:
        raise ValueError(f"{path} is empty. Give a file with at least one line.")
    # not splitlines, which also splits at form feeds and at U+2028, and would shift one of two parallel files
    lines = text.split("\n")
    if lines[-1] == "":
        lines.pop()
    check_is_text(lines, path)
    # a \r alone ends no line and remains in the text
    return [line.removesuffix("\r") for line in lines]


def read_latin_lines(path: Name) -> tuple[list[str], int]:
    """The lines of a file, and the number of lines that are not UTF-8; these are decoded as Latin-1."""
    lines = read_bytes(Path(path)).removesuffix(b"\n").split(b"\n")
    texts, num_latin = [], 0
    # line by line, because files such as TREC mix encodings
    for line in lines:
        try:
            text = line.decode("utf-8-sig")
        except UnicodeDecodeError:
            # Latin-1 maps every byte to a character, so this never fails
            text, num_latin = line.decode("latin-1"), num_latin + 1
        texts.append(text.removesuffix("\r"))
    # an empty file gives one empty line
    if texts == [""]:
        raise ValueError(f"{path} is empty. Give a file with at least one line.")
    check_is_text(texts, path)
    return texts, num_latin


def check_is_text(lines: Iterable[str], path: Name) -> None:
    """Raise ValueError for a zero byte, which occurs in UTF-16 and in binary files, but not in text."""
    for number, line in enumerate(lines, start=1):
        if "\0" in line:
            raise ValueError(
                f"line {number} of {path} has a zero byte: the file is UTF-16 or not text. Save it as UTF-8."
            )


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
    # each kind of damage has its own exception: a truncated file, invalid data, a wrong header
    except (EOFError, zlib.error, gzip.BadGzipFile) as error:
        raise ValueError(
            f"{path} is named .gz but cannot be decompressed ({error}). Check that it is complete."
        ) from None


def _pairs(texts: Iterable[tuple[str, str]], where: str) -> Pairs:
    """Pairs of stripped texts; those with an empty side are dropped and counted."""
    complete: list[Pair] = []
    dropped = {"with an empty source": 0, "with an empty target": 0, "with both sides empty": 0}
    # stripped before the test, so that a side of white space only counts as empty
    for source, target in ((source.strip(), target.strip()) for source, target in texts):
        if source and target:
            complete.append(Pair(source, target))
        elif source or target:
            dropped["with an empty target" if source else "with an empty source"] += 1
        else:
            dropped["with both sides empty"] += 1
    pairs = Pairs(tuple(complete), {reason: count for reason, count in dropped.items() if count})
    if not complete:
        raise ValueError(f"{where} hold no pair to learn from: {pairs.report}")
    return pairs


def _parse(line: str, where: str) -> dict[str, object]:
    try:
        value = json.loads(line)
    except (ValueError, RecursionError) as error:
        raise ValueError(f"{where} is not JSON ({error}): {_excerpt(line)}") from None
    if not isinstance(value, dict):
        raise ValueError(f'{where} is not an object such as {{"source": .., "target": ..}}: {_excerpt(line)}')
    return value


def _string(value: dict[str, object], key: str, where: str) -> str:
    if key not in value:
        raise ValueError(f"{where} has no key {key!r}. Its keys: {', '.join(map(repr, value)) or 'none'}.")
    text = value[key]
    if not isinstance(text, str):
        raise ValueError(f"{where} has a {type(text).__name__} under {key!r}, expected a string.")
    if "\0" in text:
        raise ValueError(f"{where} has a zero byte under {key!r}, which is no text. Remove it.")
    try:
        # JSON may escape an unpaired surrogate, which has no UTF-8 form
        text.encode()
    except UnicodeEncodeError as error:
        raise ValueError(f"{where} has an unpaired surrogate under {key!r}: \\u{ord(text[error.start]):04x}.") from None
    return text


def _counted(number: int, what: str) -> str:
    return f"{number} {what}" if number == 1 else f"{number} {what}s"


def _excerpt(text: str, width: int = 40) -> str:
    return repr(text if len(text) <= width else text[:width] + "..")
