"""Sentences with their classes, from files; a name that ends in .gz is unpacked.

lines    <label> <text>, the first word being the label: the form in which the field's sets are published
.tsv     label<TAB>text; a first line with `label` and `text` (or `sentence`) in it says where the two stand
.jsonl   {"text": .., "label": ..}, one object a line; the label is a string or a whole number

Text is read as readers.py reads it. A sentence without a text or without a label is dropped and counted.
"""

import json
from collections.abc import Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass, field, replace
from os import PathLike
from pathlib import Path
from typing import overload

from regard.data.text.pairs import dropped_sentence, read_lines, read_old_lines

Name = str | PathLike[str]

TEXT_COLUMNS = ("text", "sentence")
"""What the column of the texts is called in the first line of a table."""


@dataclass(frozen=True)
class Sentence:
    """A text and the name of its class."""

    text: str
    label: str


@dataclass(frozen=True)
class Sentences(Sequence[Sentence]):
    """The sentences of a file, how many were dropped for which reason, and how many lines were not UTF-8."""

    sentences: tuple[Sentence, ...]
    dropped: Mapping[str, int] = field(default_factory=dict)
    latin: int = 0

    def __len__(self) -> int:
        return len(self.sentences)

    def __iter__(self) -> Iterator[Sentence]:
        return iter(self.sentences)

    @overload
    def __getitem__(self, index: int) -> Sentence: ...

    @overload
    def __getitem__(self, index: slice) -> tuple[Sentence, ...]: ...

    def __getitem__(self, index: int | slice) -> Sentence | tuple[Sentence, ...]:
        return self.sentences[index]

    @property
    def report(self) -> str:
        """What was dropped and what was read otherwise, as sentences; empty where there is nothing to say."""
        latin = f"{self.latin:,} lines are not UTF-8 and were read as Latin-1." if self.latin else ""
        return " ".join(said for said in (dropped_sentence(self.dropped, "sentences"), latin) if said)


def classes_of(sentences: Iterable[Sentence]) -> tuple[str, ...]:
    """The classes there are, in the order of their names; whole numbers in the order of their size."""
    found = {sentence.label for sentence in sentences}
    if all(label.isascii() and label.isdigit() for label in found):
        return tuple(sorted(found, key=lambda label: (int(label), label)))
    return tuple(sorted(found))


def read_sentences(path: Name) -> Sentences:
    """Read a file in the form that its name says: .tsv, .jsonl, or else lines; each may end in .gz."""
    name = Path(path)
    suffix = (name.with_suffix("") if name.suffix == ".gz" else name).suffix
    return {".tsv": read_sentence_table, ".jsonl": read_sentence_json}.get(suffix, read_sentence_lines)(path)


def read_sentence_lines(path: Name) -> Sentences:
    """A line is its label, white space, and the text; published sets have lines that are older than UTF-8."""
    lines, latin = read_old_lines(path)
    parts = (line.split(maxsplit=1) for line in lines)
    found = _sentences(((text, label) for label, text, *_ in ([*part, "", ""] for part in parts)), path)
    return replace(found, latin=latin)


def read_sentence_table(path: Name) -> Sentences:
    """A table with tabs between its cells; without a first line that names them, label and text are the first two."""
    rows = [line.split("\t") for line in read_lines(path)]
    names = [cell.strip().lower() for cell in rows[0]]
    texts = [place for place, name in enumerate(names) if name in TEXT_COLUMNS]
    headed = "label" in names and bool(texts)
    label, text = (names.index("label"), texts[0]) if headed else (0, 1)
    for number, row in enumerate(rows, start=1):
        if len(row) <= max(label, text) and row != [""]:
            raise ValueError(
                f"line {number} of {path} has {len(row)} of the {max(label, text) + 1} cells that are needed: "
                f"{_excerpt(row[0])}. Cells are parted by tabs, a label and a text in each line."
            )
    cells = (("", "") if row == [""] else (row[text], row[label]) for row in rows[headed:])
    return _sentences(cells, path)


def read_sentence_json(path: Name, *, text_key: str = "text", label_key: str = "label") -> Sentences:
    """One JSON object a line."""
    found = []
    for number, line in enumerate(read_lines(path), start=1):
        value = _parse(line, f"line {number} of {path}") if line.strip() else {text_key: "", label_key: ""}
        for key, kinds, needed in ((text_key, str, "a string"), (label_key, (str, int), "a string or a whole number")):
            if key not in value:
                raise ValueError(
                    f"line {number} of {path} has no key {key!r}. Its keys: {', '.join(map(repr, value)) or 'none'}."
                )
            if not isinstance(value[key], kinds) or isinstance(value[key], bool):
                kind = type(value[key]).__name__
                raise ValueError(f"line {number} of {path} has a {kind} under {key!r}, and {needed} is needed.")
        found.append((str(value[text_key]), str(value[label_key])))
    return _sentences(found, path)


def _sentences(cells: Iterable[tuple[str, str]], path: Name) -> Sentences:
    """Sentences of stripped texts and labels, without those that lack one."""
    kept: list[Sentence] = []
    dropped = {"without a text": 0, "without a label": 0, "with neither": 0}
    for text, label in ((text.strip(), label.strip()) for text, label in cells):
        if text and label:
            kept.append(Sentence(text, label))
        elif text or label:
            dropped["without a label" if text else "without a text"] += 1
        else:
            dropped["with neither"] += 1
    found = Sentences(tuple(kept), {reason: count for reason, count in dropped.items() if count})
    if not kept:
        raise ValueError(
            f"{path} holds no sentence to learn from: {found.report or 'there is none.'} "
            f'A line is "<label> <text>"; the names .tsv and .jsonl say other forms.'
        )
    return found


def _parse(line: str, where: str) -> dict[str, object]:
    try:
        value = json.loads(line)
        line.encode()
        json.dumps(value, ensure_ascii=False).encode()
    except UnicodeEncodeError:
        raise ValueError(f"{where} has half a character in it: {_excerpt(line)}") from None
    except (ValueError, RecursionError) as error:
        raise ValueError(f"{where} is not JSON ({error}): {_excerpt(line)}") from None
    if not isinstance(value, dict):
        raise ValueError(f'{where} is no object such as {{"text": .., "label": ..}}: {_excerpt(line)}')
    return value


def _excerpt(text: str, width: int = 40) -> str:
    return repr(text if len(text) <= width else text[:width] + "..")
