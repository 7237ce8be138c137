"""Sentences with classes, from files; validation and test are files beside them, or are held out.

    corpus.read("train" | "validation" | "test") -> Sentences

Of a file TREC.train.all, TREC.dev.all (or .valid, .val) and TREC.test.all beside it are validation and test, unless
others are named.
"""

import os
from dataclasses import dataclass, replace
from pathlib import Path
from typing import Protocol, runtime_checkable

from regard.data.corpora.parallel import check_split, digest, either
from regard.data.text.labelled import Sentences, read_sentences

HELD_OUT = 10
"""One sentence in so many is held out for a split that has no file."""

FEWEST = 3
BESIDE = {"validation": (".dev", ".valid", ".val"), "test": (".test",)}
SAMPLES = (
    "What is the capital of France ?",
    "Who wrote Hamlet ?",
    "How many people live in Tokyo ?",
    "a charming and moving story .",
    "the plot is dull and far too long .",
)
"""Our own questions and reviews, like those of TREC and SST-2."""

PUBLISHED = "sentence-classification"
"""The folder of published sets, below the data folder."""


@runtime_checkable
class SentenceCorpus(Protocol):
    """Settings that name sentences with classes and can read them."""

    @property
    def splits(self) -> tuple[str, ...]:
        """The splits it has."""
        ...

    def read(self, split: str) -> Sentences:
        """The sentences of a split."""
        ...


@dataclass(frozen=True, kw_only=True)
class FileSentenceCorpus:
    """Any files that read_sentences reads.

    A split without a file is a tenth of the training sentences, in the order of their SHA-1.
    """

    data: str
    valid: str | None = None
    test: str | None = None

    @property
    def splits(self) -> tuple[str, ...]:
        """All three."""
        return ("train", "validation", "test")

    def file_of(self, split: str) -> Path | None:
        """The file of a split, where it has one."""
        given = {"train": self.data, "validation": self.valid, "test": self.test}[split]
        return Path(given) if given is not None else find_beside(Path(self.data), split)

    def read(self, split: str) -> Sentences:
        """The file of the split, or what is held out for it."""
        file = self.file_of(check_split(split))
        if file is not None and split != "train":
            return read_sentences(file)
        sentences = read_sentences(Path(self.data))
        lacking = [name for name in BESIDE if self.file_of(name) is None]
        return hold_out(sentences, split, lacking) if lacking else sentences

    def samples(self) -> list[str]:
        """Questions and sentences of reviews."""
        return list(SAMPLES)


def hold_out(sentences: Sentences, split: str, lacking: list[str]) -> Sentences:
    """The sentences of a split where some are taken out of the training file, the same text always together."""
    texts = sorted({sentence.text for sentence in sentences}, key=digest)
    if len(texts) < FEWEST:
        raise ValueError(
            f"{len(texts)} different sentences are too few to hold some out. Name files for validation and test."
        )
    count = max(len(texts) // HELD_OUT, 1)
    taken = {name: set(texts[number * count : (number + 1) * count]) for number, name in enumerate(lacking)}
    wanted = taken[split] if split in taken else set(texts) - set().union(*taken.values())
    return replace(sentences, sentences=tuple(one for one in sentences if one.text in wanted))


def find_beside(train: Path, split: str) -> Path | None:
    """The file of a split that lies beside that of the training, by its name."""
    for middle in BESIDE[split]:
        beside = either(train.with_name(train.name.replace(".train", middle).removesuffix(".gz")))
        if ".train" in train.name and beside.is_file():
            return beside
    return None


def find_file(name: str | Path) -> str:
    """A file as it is named, or one of the published sets below the data folder, compressed or not."""
    root = os.environ.get("REGARD_DATA")
    homes = [Path(), *([Path(root) / PUBLISHED, Path(root)] if root else [])]
    for home in homes:
        found = either(home / name)
        if found.is_file():
            return str(found.resolve())
    # whoever reads it says that it is not there
    return str(Path(name).resolve())
