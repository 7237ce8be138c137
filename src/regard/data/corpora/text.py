"""Texts to learn a language from: settings that can read their own splits.

corpus.read("train" | "validation" | "test") -> the text, each line with its end
"""

import pydoc_data.topics
from collections.abc import Iterable
from dataclasses import dataclass
from pathlib import Path
from typing import Protocol, runtime_checkable

from regard.data.corpora.parallel import check_split, either, find_folder, part_of
from regard.data.text.pairs import check_is_text, read_lines

PTB_FILES = {"train": "ptb.train.txt", "validation": "ptb.valid.txt", "test": "ptb.test.txt"}
PARTS = 10
"""One topic in so many is the test, one is for validation."""

TOPIC_PARTS = {"test": (), "validation": (0,), "train": (0, 1)}
"""Parts whose lines a split must not have."""
TELLING = 4
"""Words of a line that is told apart; shorter ones stand anywhere."""

TRAINED, VALIDATED = 0.9, 0.95
"""Shares of a text behind which validation, and then the test, begin."""


@runtime_checkable
class TextCorpus(Protocol):
    """Settings that name a text and can read it."""

    @property
    def splits(self) -> tuple[str, ...]:
        """The splits it has."""
        ...

    def read(self, split: str) -> str:
        """The text of a split."""
        ...


@dataclass(frozen=True, kw_only=True)
class PTBCorpus:
    """Penn Treebank as Mikolov prepared it: 929,589 + 73,760 + 82,430 tokens, each line's end among them."""

    folder: str | None = None

    @property
    def splits(self) -> tuple[str, ...]:
        """The published ones."""
        return tuple(PTB_FILES)

    def read(self, split: str) -> str:
        """The published split."""
        home = find_folder(self.folder, "ptb", "https://www.fit.vutbr.cz/~imikolov/rnnlm")
        return read_text(either(home / PTB_FILES[check_split(split)]))

    def samples(self) -> list[str]:
        """Beginnings in its style."""
        return ["the company said it will", "the stock market", "mr. smith said the new"]


@dataclass(frozen=True, kw_only=True)
class ShakespeareCorpus:
    """Karpathy's tiny Shakespeare, 1,115,394 characters: the first 90 % to learn from, the rest for validation."""

    folder: str | None = None

    @property
    def splits(self) -> tuple[str, ...]:
        """It never had a test."""
        return ("train", "validation")

    def read(self, split: str) -> str:
        """Cut where nanoGPT cuts it, in the middle of a line."""
        address = "https://github.com/karpathy/char-rnn"
        text = read_text(either(find_folder(self.folder, "tinyshakespeare", address) / "input.txt"))
        cut = int(TRAINED * len(text))
        if check_split(split) == "test":
            raise ValueError("tiny Shakespeare has no test. Evaluate on validation.")
        return text[:cut] if split == "train" else text[cut:]

    def samples(self) -> list[str]:
        """Beginnings in its style."""
        return ["ROMEO:\nBut, soft! what light", "To be, or not to be", "KING HENRY:\n"]


@dataclass(frozen=True, kw_only=True)
class TopicsCorpus:
    """The topics of Python's own documentation, which come with Python (`help("FLOAT")`): some 440,000 characters.

    A topic belongs to a split by the SHA-1 of its name; the text is that of the Python that runs. Topics repeat each
    other, so lines of some length that stand in the test are left out of the others, and those of validation out of the
    training text.
    """

    @property
    def splits(self) -> tuple[str, ...]:
        """By topic."""
        return ("train", "validation", "test")

    def read(self, split: str) -> str:
        """The topics of the split, by name."""
        wanted = {"test": (0,), "validation": (1,), "train": range(2, PARTS)}[check_split(split)]
        lines = topic_lines(wanted)
        for later in TOPIC_PARTS[split]:
            told = {line.strip() for line in topic_lines((later,)) if len(line.split()) >= TELLING}
            lines = [line for line in lines if line.strip() not in told]
        return "\n".join(lines) + "\n"

    def samples(self) -> list[str]:
        """Beginnings in its style."""
        return ["The for statement is used to", "An object is a", "Changed in version 3."]


def topic_lines(parts: Iterable[int]) -> list[str]:
    """The lines of the topics in these parts, by name."""
    topics = pydoc_data.topics.topics
    chosen = [topics[name] for name in sorted(topics) if part_of(name, PARTS) in parts]
    return [line for text in chosen for line in text.removesuffix("\n").split("\n")]


@dataclass(frozen=True, kw_only=True)
class FileTextCorpus:
    """Any text files. Without one for validation, the last tenth of the text is held out: half for it, half as test."""

    data: str
    valid: str | None = None
    test: str | None = None

    @property
    def splits(self) -> tuple[str, ...]:
        """All three, or without a test where validation has a file and the test has none."""
        return ("train", "validation", "test") if self.valid is None or self.test else ("train", "validation")

    def read(self, split: str) -> str:
        """The file named for the split, or what is held out for it."""
        named = {"validation": self.valid, "test": self.test}.get(check_split(split))
        if named is not None:
            return read_text(Path(named))
        if split not in self.splits:
            raise ValueError("this run has no test file. Evaluate on validation.")
        text = read_text(Path(self.data))
        if self.valid is not None:
            return text
        places = [0, *(find_cut(text, share) for share in (TRAINED, VALIDATED)), len(text)]
        if self.test is not None:
            places[2] = len(text)
        number = ("train", "validation", "test").index(split)
        found = text[places[number] : places[number + 1]]
        if not found.strip():
            raise ValueError(
                f"{self.data} is too short to hold some of it out for {split}. Name a file with --valid-source, or "
                f"give more text."
            )
        return found

    def samples(self) -> list[str]:
        """None: nothing is known of a user's own text."""
        return []


def read_text(path: Path) -> str:
    """A whole text, with an end behind its last line."""
    lines = read_lines(path)
    check_is_text(lines, path)
    return "\n".join(lines) + "\n"


def find_cut(text: str, share: float) -> int:
    """A place near this share of the text: behind a line if one ends soon, else behind a word, else anywhere."""
    place, soon = int(share * len(text)), max(len(text) // 50, 1)
    for mark in ("\n", " "):
        found = text.find(mark, place, place + soon)
        if found >= 0:
            return found + 1
    return place
