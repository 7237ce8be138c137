"""Corpora for language models.

corpus.read("train" | "validation" | "test") -> the text, with a line end after each line
"""

import pydoc_data.topics
from collections.abc import Iterable, Mapping
from dataclasses import dataclass
from pathlib import Path
from typing import Any, ClassVar, Literal, Protocol, get_args, runtime_checkable

from regard._utils import check_name
from regard.contracts import Description, Title
from regard.data.corpora.base import held_out_by_hash, part_of
from regard.data.corpora.descriptions import CONTINUATION, like_file
from regard.data.corpora.parallel import check_split, find_folder, find_gzip
from regard.data.text.pairs import read_lines

PTB_FILES = {"train": "ptb.train.txt", "validation": "ptb.valid.txt", "test": "ptb.test.txt"}
PARTS = 10
"""1 / PARTS of the topics are the test, as many are for validation."""

EXCLUDED_PARTS = {"test": (), "validation": (0,), "train": (0, 1)}
"""The parts whose lines are removed from a split."""
MIN_DUPLICATE_WORDS = 4
"""Shorter lines are not removed as duplicates, because they are common phrases."""

TRAIN_END, VALIDATION_END = 0.9, 0.95
"""The fractions of a text at which validation and test begin."""

TextAssignment = Literal["hash", "end"]
"""How lines are held out of a user's text.

    hash   by the SHA-1 of the line alone: it has the same split in every version of the file
    end    the last tenth, as one piece; a line may change its split when the file grows
"""

LINE_PARTS = 20
"""1 / LINE_PARTS of the lines are the test, as many are for validation."""

MIN_LINE_BYTES = 8
"""Shorter lines stay with the line after them, because they are common phrases, such as headings."""


@runtime_checkable
class TextCorpus(Protocol):
    """A data set that is one text per split."""

    @property
    def splits(self) -> tuple[str, ...]:
        """The available splits."""
        ...

    def read(self, split: str) -> str:
        """The text of a split."""
        ...


@dataclass(frozen=True, kw_only=True)
class PTBCorpus:
    """Penn Treebank as prepared by Mikolov: 929,589 + 73,760 + 82,430 tokens, including line ends."""

    folder: str | None = None

    @property
    def splits(self) -> tuple[str, ...]:
        """The published splits."""
        return tuple(PTB_FILES)

    def read(self, split: str) -> str:
        """Read the published split."""
        folder = find_folder(self.folder, "ptb", "https://www.fit.vutbr.cz/~imikolov/rnnlm")
        return read_text(find_gzip(folder / PTB_FILES[check_split(split)]))

    @property
    def description(self) -> Description:
        """What the text is."""
        return Description(
            reads=Title(en="English business news, in lower case", zh="英语商业新闻（小写）"), writes=CONTINUATION
        )

    def samples(self) -> list[str]:
        """Prompts in the style of the text."""
        return ["the company said it will", "the stock market", "mr. smith said the new"]


@dataclass(frozen=True, kw_only=True)
class ShakespeareCorpus:
    """Karpathy's tiny Shakespeare, 1,115,394 characters: the first 90 % for training, the rest for validation."""

    folder: str | None = None

    @property
    def splits(self) -> tuple[str, ...]:
        """Train and validation; the data set has no test."""
        return ("train", "validation")

    def read(self, split: str) -> str:
        """Read a split; the split point is that of nanoGPT, in the middle of a line."""
        address = "https://github.com/karpathy/char-rnn"
        text = read_text(find_gzip(find_folder(self.folder, "tinyshakespeare", address) / "input.txt"))
        split_point = int(TRAIN_END * len(text))
        if check_split(split) == "test":
            raise ValueError("tiny Shakespeare has no test. Evaluate on validation.")
        return text[:split_point] if split == "train" else text[split_point:]

    @property
    def description(self) -> Description:
        """What the text is."""
        return Description(
            reads=Title(en="text like the plays of Shakespeare", zh="莎士比亚戏剧式的英语文本"), writes=CONTINUATION
        )

    def samples(self) -> list[str]:
        """Prompts in the style of the text."""
        return ["ROMEO:\nBut, soft! what light", "To be, or not to be", "KING HENRY:\n"]


@dataclass(frozen=True, kw_only=True)
class TopicsCorpus:
    """The help topics that are part of Python (`help("FLOAT")`), about 440,000 characters.

    The SHA-1 of its name determines the split of a topic; the text depends on the version of Python. Topics repeat each
    other, so longer lines of the test are removed from the other splits, and those of validation from the training
    text.
    """

    @property
    def splits(self) -> tuple[str, ...]:
        """Train, validation and test."""
        return ("train", "validation", "test")

    def read(self, split: str) -> str:
        """Read the topics of a split, sorted by name."""
        parts: Iterable[int] = {"test": (0,), "validation": (1,), "train": range(2, PARTS)}[check_split(split)]
        lines = topic_lines(parts)
        for part in EXCLUDED_PARTS[split]:
            duplicates = {line.strip() for line in topic_lines((part,)) if len(line.split()) >= MIN_DUPLICATE_WORDS}
            # stripped on both sides, since topics indent repeated text differently
            lines = [line for line in lines if line.strip() not in duplicates]
        return "\n".join(lines) + "\n"

    @property
    def description(self) -> Description:
        """What the text is."""
        return Description(
            reads=Title(en="text like the documentation of Python", zh="Python 文档式的英语文本"), writes=CONTINUATION
        )

    def samples(self) -> list[str]:
        """Prompts in the style of the text."""
        return ["The for statement is used to", "An object is a", "Changed in version 3."]


def topic_lines(parts: Iterable[int]) -> list[str]:
    """The lines of the topics in these parts, sorted by name of the topic."""
    topics = pydoc_data.topics.topics
    # sorted, as the order of the dictionary may differ between versions of Python
    texts = [topics[name] for name in sorted(topics) if part_of(name, PARTS) in parts]
    return [line for text in texts for line in text.removesuffix("\n").split("\n")]


@dataclass(frozen=True, kw_only=True)
class FileTextCorpus:
    """Text files. Without one for validation, a tenth is held out: half for validation, half as test (`assignment`)."""

    FORMER_VALUES: ClassVar[Mapping[str, Any]] = {"assignment": "end"}
    """The values of fields that configs of earlier versions lack."""

    data: str
    valid: str | None = None
    test: str | None = None
    assignment: TextAssignment = "hash"

    def __post_init__(self) -> None:
        check_name(self.assignment, get_args(TextAssignment), "assignment")

    @property
    def splits(self) -> tuple[str, ...]:
        """Train, validation and test; no test if only validation has a file."""
        return ("train", "validation", "test") if self.valid is None or self.test else ("train", "validation")

    def read(self, split: str) -> str:
        """Read the file of the split, or the text that is held out for it."""
        path = {"validation": self.valid, "test": self.test}.get(check_split(split))
        if path is not None:
            return read_text(Path(path))
        # only a missing test arrives here: validation without a file is held out
        if split not in self.splits:
            raise ValueError("this run has no test file. Evaluate on validation.")
        text = read_text(Path(self.data))
        if self.valid is not None:
            return text
        has_test = self.test is None
        part = end_part(text, split, has_test) if self.assignment == "end" else self.lines_of(text, split, has_test)
        if not part.strip():
            raise ValueError(
                f"{self.data} is too short to hold out a part for {split}. Give a file with --valid-source, or more "
                f"text."
            )
        return part

    def lines_of(self, text: str, split: str, has_test: bool) -> str:
        """The lines of a split by their SHA-1."""
        names = ("validation", "test") if has_test else ("validation",)
        lines = text.removesuffix("\n").split("\n")
        long = {line.strip() for line in lines if is_long(line)}
        held_out = held_out_by_hash(long, names, LINE_PARTS, origin=self.data, otherwise="end")
        assigned = {line: name for name, members in held_out.items() for line in members}
        selection: list[str] = []
        # backwards, because a short line has the split of the line after it
        current = "train"
        for line in reversed(lines):
            current = assigned.get(line.strip(), "train") if is_long(line) else current
            if current == split:
                selection.append(line)
        return "".join(f"{line}\n" for line in reversed(selection))

    @property
    def description(self) -> Description:
        """What the text is."""
        return Description(reads=like_file(self.data), writes=CONTINUATION)

    def samples(self) -> list[str]:
        """None, because the text is the user's."""
        return []


def end_part(text: str, split: str, has_test: bool) -> str:
    """The part of a split, of which validation and test are at the end of the text."""
    # bounds in characters: training, validation, test
    bounds = [0, *(find_split_point(text, fraction) for fraction in (TRAIN_END, VALIDATION_END)), len(text)]
    if not has_test:
        # validation has the whole tenth
        bounds[2] = len(text)
    number = ("train", "validation", "test").index(split)
    return text[bounds[number] : bounds[number + 1]]


def is_long(line: str) -> bool:
    """Whether a line is long enough to be assigned to a split by its content."""
    return len(line.strip().encode()) >= MIN_LINE_BYTES


def read_text(path: Path) -> str:
    """Read a text; a missing line end after the last line is added."""
    return "\n".join(read_lines(path)) + "\n"


def find_split_point(text: str, fraction: float) -> int:
    """The position after the next line end, else space, within 2 % after a fraction of the text; else the fraction."""
    position, distance = int(fraction * len(text)), max(len(text) // 50, 1)
    for separator in ("\n", " "):
        # only a short distance, so that the sizes of the parts stay close to the fractions
        index = text.find(separator, position, position + distance)
        if index >= 0:
            return index + 1
    return position
