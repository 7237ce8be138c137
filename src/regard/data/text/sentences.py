"""Readers of sentences with classes; a file whose name ends in .gz is decompressed.

    lines    <label> <text>, where the label is the first word: the format of published data sets
    .tsv     label<TAB>text; a header with `label` and `text` (or `sentence`) gives the order of the columns
    .jsonl   {"text": .., "label": ..}, one object per line; the label is a string or an integer

The rules for encodings and line ends are those of pairs.py. A sentence without a text or without a label is dropped and
counted.
"""

import json
from collections.abc import Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass, field, replace
from os import PathLike
from pathlib import Path
from typing import overload

from regard.data.text.pairs import dropped_sentence, read_latin_lines, read_lines

Name = str | PathLike[str]

TEXT_COLUMNS = ("text", "sentence")
"""Names of the text column in the header of a table."""


@dataclass(frozen=True)
class Sentence:
    """A text and the name of its class."""

    text: str
    label: str


@dataclass(frozen=True)
class Sentences(Sequence[Sentence]):
    """The sentences of a file, the number that was dropped by reason, and the number of lines that are not UTF-8."""

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
        """How many sentences were dropped or decoded as Latin-1; empty if there are none."""
        latin = f"{self.latin:,} lines are not UTF-8 and were read as Latin-1." if self.latin else ""
        return " ".join(part for part in (dropped_sentence(self.dropped, "sentences"), latin) if part)


def classes_of(sentences: Iterable[Sentence]) -> tuple[str, ...]:
    """The classes of the sentences, sorted by name, or by value if all are integers."""
    # a set: each class once
    labels = {sentence.label for sentence in sentences}
    # isdigit alone accepts digits such as ², which int() rejects
    if all(label.isascii() and label.isdigit() for label in labels):
        # the text breaks ties such as 1 and 01, so that the order never depends on that of the set
        return tuple(sorted(labels, key=lambda label: (int(label), label)))
    return tuple(sorted(labels))


def read_sentences(path: Name) -> Sentences:
    """Read a file in the format of its suffix: .tsv, .jsonl, or else lines; .gz may follow."""
    name = Path(path)
    # train.tsv.gz has the format of train.tsv
    suffix = (name.with_suffix("") if name.suffix == ".gz" else name).suffix
    return {".tsv": read_sentence_table, ".jsonl": read_sentence_json}.get(suffix, read_sentence_lines)(path)


def read_sentence_lines(path: Name) -> Sentences:
    """Read lines of a label, white space and a text; lines that are not UTF-8, as in TREC, are decoded as Latin-1."""
    lines, latin = read_latin_lines(path)
    parts = (line.split(maxsplit=1) for line in lines)
    # a line of a label alone has one part, an empty line none: empty texts fill the missing ones
    sentences = _sentences(((text, label) for label, text, *_ in ([*part, "", ""] for part in parts)), path)
    return replace(sentences, latin=latin)


def read_sentence_table(path: Name) -> Sentences:
    """Read a table with tab-separated cells; without a header, label and text are the first two columns."""
    rows = [line.split("\t") for line in read_lines(path)]
    names = [cell.strip().lower() for cell in rows[0]]
    texts = [column for column, name in enumerate(names) if name in TEXT_COLUMNS]
    has_header = "label" in names and bool(texts)
    # the order of the columns is free only with a header
    label, text = (names.index("label"), texts[0]) if has_header else (0, 1)
    for number, row in enumerate(rows, start=1):
        if len(row) <= max(label, text) and row != [""]:
            raise ValueError(
                f"line {number} of {path} has {len(row)} of the {max(label, text) + 1} cells that are needed: "
                f"{_excerpt(row[0])}. Each line needs a label and a text, separated by tabs."
            )
    # has_header is a bool, so the slice starts at 1 or 0
    cells = (("", "") if row == [""] else (row[text], row[label]) for row in rows[has_header:])
    return _sentences(cells, path)


def read_sentence_json(path: Name, *, text_key: str = "text", label_key: str = "label") -> Sentences:
    """Read one JSON object per line."""
    cells = []
    for number, line in enumerate(read_lines(path), start=1):
        # an empty line counts as a sentence with neither text nor label
        value = _parse(line, f"line {number} of {path}") if line.strip() else {text_key: "", label_key: ""}
        for key, types, needed in ((text_key, str, "a string"), (label_key, (str, int), "a string or a whole number")):
            if key not in value:
                raise ValueError(
                    f"line {number} of {path} has no key {key!r}. Its keys: {', '.join(map(repr, value)) or 'none'}."
                )
            # bool is a subclass of int
            if not isinstance(value[key], types) or isinstance(value[key], bool):
                name = type(value[key]).__name__
                raise ValueError(f"line {number} of {path} has a {name} under {key!r}, expected {needed}.")
            if "\0" in str(value[key]):
                raise ValueError(f"line {number} of {path} has a zero byte under {key!r}, which is no text. Remove it.")
        # integer labels become names, so that 1 and "1" are one class
        cells.append((str(value[text_key]), str(value[label_key])))
    return _sentences(cells, path)


def _sentences(cells: Iterable[tuple[str, str]], path: Name) -> Sentences:
    """Sentences of stripped texts and labels; those that lack one are dropped and counted."""
    complete: list[Sentence] = []
    dropped = {"without a text": 0, "without a label": 0, "with neither": 0}
    for text, label in ((text.strip(), label.strip()) for text, label in cells):
        if text and label:
            complete.append(Sentence(text, label))
        elif text or label:
            dropped["without a label" if text else "without a text"] += 1
        else:
            dropped["with neither"] += 1
    sentences = Sentences(tuple(complete), {reason: count for reason, count in dropped.items() if count})
    if not complete:
        raise ValueError(
            f"{path} holds no sentence to learn from: {sentences.report or 'there is none.'} "
            f'A line is "<label> <text>"; the suffixes .tsv and .jsonl select other formats.'
        )
    return sentences


def _parse(line: str, where: str) -> dict[str, object]:
    try:
        value = json.loads(line)
        # an unpaired surrogate, also as an escape, cannot be encoded
        line.encode()
        # JSON escapes are decoded in `value` only, so both forms are tested
        json.dumps(value, ensure_ascii=False).encode()
    # before ValueError, of which UnicodeEncodeError is a subclass
    except UnicodeEncodeError:
        raise ValueError(f"{where} has an unpaired surrogate: {_excerpt(line)}") from None
    except (ValueError, RecursionError) as error:
        raise ValueError(f"{where} is not JSON ({error}): {_excerpt(line)}") from None
    if not isinstance(value, dict):
        raise ValueError(f'{where} is not an object such as {{"text": .., "label": ..}}: {_excerpt(line)}')
    return value


def _excerpt(text: str, width: int = 40) -> str:
    return repr(text if len(text) <= width else text[:width] + "..")
