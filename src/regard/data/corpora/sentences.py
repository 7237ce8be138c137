"""Sentences with classes from files; validation and test are neighbouring files, or are held out.

    corpus.read("train" | "validation" | "test") -> Sentences

For a file TREC.train.all, the files TREC.dev.all (or .valid, .val) and TREC.test.all in the same folder are validation
and test, unless others are given.
"""

import os
from collections.abc import Mapping
from dataclasses import dataclass, replace
from pathlib import Path
from typing import Any, ClassVar, Protocol, runtime_checkable

from regard.data.corpora.base import Assignment, check_assignment, digest, held_out_by_hash
from regard.data.corpora.parallel import check_split, find_gzip
from regard.data.text.sentences import Sentences, read_sentences

HELD_OUT = 10
"""1 / HELD_OUT of the sentences are held out for a split without a file."""

MIN_SENTENCES = 3
NEIGHBOURS = {"validation": (".dev", ".valid", ".val"), "test": (".test",)}
SAMPLES = (
    "What is the capital of France ?",
    "Who wrote Hamlet ?",
    "How many people live in Tokyo ?",
    "a charming and moving story .",
    "the plot is dull and far too long .",
)
"""Questions and reviews written for this package, in the style of TREC and SST-2."""

PUBLISHED = "sentence-classification"
"""The folder of published data sets in the data folder."""


@runtime_checkable
class SentenceCorpus(Protocol):
    """A data set of sentences with classes."""

    @property
    def splits(self) -> tuple[str, ...]:
        """The available splits."""
        ...

    def read(self, split: str) -> Sentences:
        """The sentences of a split."""
        ...


@dataclass(frozen=True, kw_only=True)
class FileSentenceCorpus:
    """Files in the formats of `read_sentences`.

    A split without a file is a tenth of the training sentences, by the SHA-1 of the sentence (`assignment`).
    """

    FORMER_VALUES: ClassVar[Mapping[str, Any]] = {"assignment": "rank"}
    """The values of fields that configs of earlier versions lack."""

    data: str
    valid: str | None = None
    test: str | None = None
    assignment: Assignment = "hash"

    def __post_init__(self) -> None:
        check_assignment(self.assignment)

    @property
    def splits(self) -> tuple[str, ...]:
        """Train, validation and test."""
        return ("train", "validation", "test")

    def file_of(self, split: str) -> Path | None:
        """The file of a split if it has one."""
        path = {"train": self.data, "validation": self.valid, "test": self.test}[split]
        # a given file has priority over a neighbour
        return Path(path) if path is not None else find_neighbour(Path(self.data), split)

    def read(self, split: str) -> Sentences:
        """Read the file of the split, or the sentences that are held out for it."""
        file = self.file_of(check_split(split))
        if file is not None and split != "train":
            return read_sentences(file)
        sentences = read_sentences(Path(self.data))
        # every split is checked, as the training text depends on which others have files
        without_file = [name for name in NEIGHBOURS if self.file_of(name) is None]
        if not without_file:
            return sentences
        return hold_out(sentences, split, without_file, assignment=self.assignment, origin=self.data)

    def samples(self) -> list[str]:
        """Example inputs."""
        return list(SAMPLES)


def hold_out(
    sentences: Sentences,
    split: str,
    without_file: list[str],
    *,
    assignment: Assignment = "hash",
    origin: str = "the file",
) -> Sentences:
    """The sentences of a split if those `without_file` are held out of the training file."""
    # by distinct texts: a duplicate must not be in two splits
    texts = {sentence.text for sentence in sentences}
    if len(texts) < MIN_SENTENCES:
        raise ValueError(
            f"{len(texts)} different sentences are too few to hold some out. Give files for validation and test."
        )
    if assignment == "rank":
        ranked, count = sorted(texts, key=digest), max(len(texts) // HELD_OUT, 1)
        # consecutive parts, in the order of the splits
        held_out = {name: set(ranked[count * n : count * (n + 1)]) for n, name in enumerate(without_file)}
    else:
        # the part of a split with a file of its own remains in the training sentences
        held_out = held_out_by_hash(texts, without_file, HELD_OUT, origin=origin)
    selection = held_out[split] if split in held_out else texts - set().union(*held_out.values())
    return replace(sentences, sentences=tuple(sentence for sentence in sentences if sentence.text in selection))


def find_neighbour(train: Path, split: str) -> Path | None:
    """The file of a split in the folder of the training file, by its name."""
    for middle in NEIGHBOURS[split]:
        # without .gz first, as find_gzip adds it where needed
        path = find_gzip(train.with_name(train.name.replace(".train", middle).removesuffix(".gz")))
        # a name without .train would be found again as its own neighbour
        if ".train" in train.name and path.is_file():
            return path
    return None


def is_published(file: str) -> bool:
    """Whether a file is in the folder of published sets."""
    return Path(file).parent.name == PUBLISHED


def find_file(name: str | Path) -> str:
    """The path of a file, or of a published set in the data folder, compressed or not."""
    root = os.environ.get("REGARD_DATA")
    folders = [Path(), *([Path(root) / PUBLISHED, Path(root)] if root else [])]
    for folder in folders:
        path = find_gzip(folder / name)
        if path.is_file():
            return str(path.resolve())
    # reading it raises the error for a missing file
    return str(Path(name).resolve())
