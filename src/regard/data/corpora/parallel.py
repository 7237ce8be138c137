"""Parallel corpora: Multi30k, Tatoeba, and files of sentence pairs.

    corpus.read("train" | "validation" | "test") -> Pairs

Published data sets are read from the folder `folder`, or from that of the environment variable REGARD_DATA. A set
without splits is split by the SHA-1 of a sentence, so that a sentence is in the same split on every machine.
"""

import os
from collections.abc import Iterable, Mapping
from dataclasses import dataclass, replace
from pathlib import Path
from typing import Any, ClassVar, Literal, Protocol, runtime_checkable

from regard._utils import check_name
from regard.contracts import Description, Title
from regard.data.corpora.base import (
    MAX_HELD_OUT,
    SPLITS,
    Assignment,
    check_assignment,
    digest,
    held_out_by_hash,
    part_of,
)
from regard.data.corpora.descriptions import describe_pairs, like_file
from regard.data.text.pairs import Pairs, read_json_lines, read_parallel, read_tsv

MULTI30K_FILES = {"train": "train", "validation": "val", "test": "test_2016_flickr"}
MULTI30K_LANGUAGES = ("en", "de", "fr")
TATOEBA_FILES = {"zh": "cmn-eng.tsv", "fr": "fra-eng.tsv", "de": "deu-eng.tsv"}
PARTS = 20

SENTENCES = {
    "en": (
        "A man in a blue shirt is standing on a ladder.",
        "Two children play with a dog in the snow.",
        "The woman who sells flowers is reading a newspaper.",
        "What time does the train leave?",
    ),
    "de": (
        "Ein Mann in einem blauen Hemd steht auf einer Leiter.",
        "Zwei Kinder spielen im Schnee mit einem Hund.",
        "Die Frau, die Blumen verkauft, liest eine Zeitung.",
    ),
    "fr": (
        "Un homme en chemise bleue est debout sur une échelle.",
        "Deux enfants jouent avec un chien dans la neige.",
    ),
    "zh": ("我吃了一个苹果。", "两个孩子在雪地里和狗玩。", "火车几点开？"),
}
"""Example sentences by language, written for this package."""


@runtime_checkable
class Corpus(Protocol):
    """A data set of sentence pairs."""

    @property
    def splits(self) -> tuple[str, ...]:
        """The available splits; the last one is for evaluation."""
        ...

    @property
    def languages(self) -> tuple[str, str]:
        """The languages of source and target, '' if unknown."""
        ...

    @property
    def tokenised(self) -> bool:
        """True if the text is tokenised already, so that BLEU must not tokenise it again."""
        ...

    def read(self, split: str) -> Pairs:
        """The pairs of a split."""
        ...


@dataclass(frozen=True, kw_only=True)
class Multi30kCorpus:
    """Image captions, 29,000 + 1,014 + 1,000 pairs: `tok` lower-cased, normalised and tokenised, or `raw`."""

    pair: str = "en-de"
    form: Literal["tok", "raw"] = "tok"
    folder: str | None = None

    def __post_init__(self) -> None:
        languages = MULTI30K_LANGUAGES
        pairs = [f"{source}-{target}" for source in languages for target in languages if source != target]
        check_name(self.pair, pairs, "language pair")

    @property
    def splits(self) -> tuple[str, ...]:
        """Train, validation and test."""
        return tuple(SPLITS)

    @property
    def languages(self) -> tuple[str, str]:
        """The languages of the pair."""
        return split_pair(self.pair)

    @property
    def tokenised(self) -> bool:
        """True for `tok`, the form on which most papers report BLEU."""
        return self.form == "tok"

    def read(self, split: str) -> Pairs:
        """Read the published split; `test` is test_2016_flickr."""
        name = MULTI30K_FILES[check_split(split)]
        middle = "lc.norm.tok." if self.form == "tok" else ""
        source, target = (f"{self.form}/{name}.{middle}{language}" for language in self.languages)
        folder = find_folder(self.folder, "multi30k", "https://github.com/multi30k/dataset")
        return read_parallel(find_gzip(folder / source), find_gzip(folder / target))

    @property
    def description(self) -> Description:
        """Image captions."""
        captions = Title(en="image captions", zh="图片说明")
        tokenised = Title(en="lower-case, tokenised image captions", zh="图片说明（小写、已分词）")
        return describe_pairs(tokenised if self.tokenised else captions, self.languages)

    def samples(self) -> list[str]:
        """Example sentences in the source language."""
        return samples_in(self.languages[0])


@dataclass(frozen=True, kw_only=True)
class TatoebaCorpus:
    """Short sentences of tatoeba.org; the split is the SHA-1 of the English side modulo 20: 0 test, 1 validation."""

    pair: str = "en-zh"
    folder: str | None = None

    def __post_init__(self) -> None:
        pairs = [*(f"en-{other}" for other in TATOEBA_FILES), *(f"{other}-en" for other in TATOEBA_FILES)]
        check_name(self.pair, pairs, "language pair")

    @property
    def splits(self) -> tuple[str, ...]:
        """Train, validation and test."""
        return tuple(SPLITS)

    @property
    def languages(self) -> tuple[str, str]:
        """The languages of the pair."""
        return split_pair(self.pair)

    @property
    def tokenised(self) -> bool:
        """False: the text is not tokenised."""
        return False

    def read(self, split: str) -> Pairs:
        """Read the pairs whose English sentence is in the split."""
        parts: Iterable[int] = {"test": (0,), "validation": (1,), "train": range(2, PARTS)}[check_split(split)]
        source, target = self.languages
        folder = find_folder(self.folder, "tatoeba", "https://www.manythings.org/anki")
        # the files have English in the first column, whichever language is the source
        english, other = (0, 1) if source == "en" else (1, 0)
        path = find_gzip(folder / TATOEBA_FILES[target if source == "en" else source])
        pairs = read_tsv(path, source_column=english, target_column=other)
        # the split depends on the English side in both directions, so en-zh and zh-en have the same test
        side = "source" if source == "en" else "target"
        in_split = tuple(pair for pair in pairs if part_of(getattr(pair, side), PARTS) in parts)
        return Pairs(in_split, pairs.dropped)

    @property
    def description(self) -> Description:
        """Short sentences."""
        return describe_pairs(Title(en="short everyday sentences", zh="日常短句"), self.languages)

    def samples(self) -> list[str]:
        """Example sentences in the source language."""
        return samples_in(self.languages[0])


def samples_in(language: str) -> list[str]:
    """Example sentences in a language, such as zh or zh_CN; none for other languages."""
    return list(SENTENCES.get(language.split("_", maxsplit=1)[0], ()))


def split_pair(pair: str) -> tuple[str, str]:
    """The two languages of a pair such as `en-de`."""
    source, dash, target = pair.partition("-")
    if not dash or not source or not target:
        raise ValueError(f"there is no language pair {pair!r}. Write it as en-de.")
    return source, target


def check_split(split: str) -> str:
    """Raise ValueError for an unknown split, else return it."""
    check_name(split, SPLITS, "split")
    return split


def find_folder(folder: str | None, name: str, address: str) -> Path:
    """The folder of a published set: that of its name in the data folder, or the data folder itself."""
    root = folder or os.environ.get("REGARD_DATA")
    if not root:
        raise ValueError(
            f"{name} is not part of regard. Give its folder with --data (or REGARD_DATA); it is at {address}."
        )
    if not Path(root).is_dir():
        raise ValueError(f"the data folder {root} does not exist. Give another with --data (or REGARD_DATA).")
    # a folder of the set itself may also be given directly
    return Path(root) / name if (Path(root) / name).is_dir() else Path(root)


def find_gzip(path: Path) -> Path:
    """The path itself if it exists, else with the suffix .gz."""
    return path if path.exists() else path.with_name(f"{path.name}.gz")


HELD_OUT = 20
"""1 / HELD_OUT of the sources are the test, as many are for validation."""

MIN_SOURCES = 3


@dataclass(frozen=True, kw_only=True)
class FileCorpus:
    """Two files with the same number of lines, or one .tsv or .jsonl file with both sides (and no `target`).

    Without files for validation, sources are held out of the training files: 5 % for validation, and 5 % for the test
    unless it has files. The SHA-1 of a source determines its split (`assignment`), and of each split the 2,000 with the
    lowest SHA-1 at most are used. With files for validation only there is no test.
    """

    FORMER_VALUES: ClassVar[Mapping[str, Any]] = {"assignment": "rank"}
    """The values of fields that configs of earlier versions lack."""

    source: str
    target: str | None = None
    valid_source: str | None = None
    valid_target: str | None = None
    test_source: str | None = None
    test_target: str | None = None
    pair: str = ""
    assignment: Assignment = "hash"

    def __post_init__(self) -> None:
        check_assignment(self.assignment)
        if self.pair:
            split_pair(self.pair)

    @property
    def splits(self) -> tuple[str, ...]:
        """Train, validation and test; no test if only validation has files."""
        has_test = self.valid_source is None or self.test_source is not None
        return ("train", "validation", "test") if has_test else ("train", "validation")

    @property
    def languages(self) -> tuple[str, str]:
        """The languages of `pair`, else of the suffixes of the files (train.en, train.zh)."""
        if self.pair:
            return split_pair(self.pair)
        source, target = (language_suffix(name) for name in (self.source, self.target))
        return source, target

    @property
    def tokenised(self) -> bool:
        """False, because the files are the user's."""
        return False

    def read(self, split: str) -> Pairs:
        """Read the files of the split, or the pairs that are held out for it."""
        check_split(split)
        files = {"validation": (self.valid_source, self.valid_target), "test": (self.test_source, self.test_target)}
        # files of the split itself come first
        if split in files and files[split] != (None, None):
            return read_files(*files[split])
        if split == "test" and self.valid_source is not None:
            raise ValueError(
                "this run has no test files. Evaluate on validation, or give files with --source, --target."
            )
        pairs = read_files(self.source, self.target)
        # with own validation files the training files are used completely
        if self.valid_source is not None:
            return pairs
        # only splits without files are held out
        without_files = [name for name, paths in files.items() if paths == (None, None)]
        return held_out_split(pairs, split, without_files, assignment=self.assignment, origin=self.source)

    @property
    def description(self) -> Description:
        """Text like that of the user's file."""
        text = describe_pairs(Title(en="text", zh="文本"), self.languages)
        return replace(text, reads=like_file(self.source, en=f"{text.reads.en} like that", zh=text.reads.zh))

    def samples(self) -> list[str]:
        """Example sentences in the source language."""
        return samples_in(self.languages[0])


def read_files(source: str | None, target: str | None) -> Pairs:
    """Read pairs from two files of lines, or from one file with both sides."""
    if source is None:
        raise ValueError(
            "there is a file of targets and none of sources. Give both, or one .tsv or .jsonl file as source."
        )
    name = source.removesuffix(".gz")
    if target is not None:
        return read_parallel(Path(source), Path(target))
    if name.endswith((".tsv", ".jsonl", ".json")):
        return read_tsv(Path(source)) if name.endswith(".tsv") else read_json_lines(Path(source))
    raise ValueError(f"{source} has one side only. Give the other (--target), or one .tsv or .jsonl file with both.")


def held_out_split(
    pairs: Pairs, split: str, held_out: list[str], *, assignment: Assignment = "hash", origin: str = "the file"
) -> Pairs:
    """The pairs of a split if those in `held_out` are held out of the training files."""
    # by distinct sources: a source with several targets must not be in two splits
    sources = {pair.source for pair in pairs}
    if len(sources) < MIN_SOURCES:
        raise ValueError(
            f"{len(sources)} different sources are too few to hold some out. Give files with --valid-source, "
            f"--valid-target."
        )
    splits = (
        ranked_sources(sources)
        if assignment == "rank"
        else held_out_by_hash(sources, held_out, HELD_OUT, origin=origin)
    )
    if split == "train":
        # a split with files of its own is not in `held_out`: its part remains in the training text
        selection = sources - set().union(*(splits[name] for name in held_out))
    else:
        # sources beyond the limit are in no split, or they would be learned while the files are small
        selection = set(sorted(splits[split], key=digest)[:MAX_HELD_OUT])
    return Pairs(tuple(pair for pair in pairs if pair.source in selection), pairs.dropped)


def ranked_sources(sources: set[str]) -> dict[str, set[str]]:
    """The first 5 % of the sources by SHA-1 for the test, the next 5 % for validation; 2,000 each at most."""
    # sorted by hash: the order of the file has no influence
    ranked = sorted(sources, key=digest)
    # at least one each
    count = min(max(len(ranked) // HELD_OUT, 1), MAX_HELD_OUT)
    return {"test": set(ranked[:count]), "validation": set(ranked[count : 2 * count])}


def language_suffix(name: str | None) -> str:
    """The suffix of a file name if it has the form of a language, else an empty text."""
    suffix = Path(name.removesuffix(".gz")).suffix.removeprefix(".") if name else ""
    # two letters, so that .txt is not taken for a language
    return suffix if len(suffix) == 2 else ""
