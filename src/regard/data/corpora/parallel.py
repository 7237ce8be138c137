"""Parallel corpora: Multi30k, Tatoeba, and files of sentence pairs.

Where a run's sentences come from: settings that can read their own splits, and know their languages.

    corpus.read("train" | "validation" | "test") -> Pairs

Published sets are read from a folder named by `folder`, or by the environment variable REGARD_DATA. A set without
splits is split by the SHA-1 of a sentence, so that the same sentence is always on the same side.

Sentences from any files: two of lines, or one table; validation and test are held out where they have none.
"""

import os
from dataclasses import dataclass
from hashlib import sha1
from pathlib import Path
from typing import Literal, Protocol, runtime_checkable

from regard._utils import check_name
from regard.data.corpora.base import SPLITS
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
"""Our own sentences by language, in no published set."""


@runtime_checkable
class Corpus(Protocol):
    """Settings that name sentences and can read them."""

    @property
    def splits(self) -> tuple[str, ...]:
        """The splits it has; the last one is that to evaluate on."""
        ...

    @property
    def languages(self) -> tuple[str, str]:
        """The source's and the target's language, '' where unknown."""
        ...

    @property
    def tokenised(self) -> bool:
        """Whether words and punctuation are already set apart, and scores are to be taken as they stand."""
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
        known = [f"{one}-{other}" for one in MULTI30K_LANGUAGES for other in MULTI30K_LANGUAGES if one != other]
        check_name(self.pair, known, "language pair")

    @property
    def splits(self) -> tuple[str, ...]:
        """All three."""
        return tuple(SPLITS)

    @property
    def languages(self) -> tuple[str, str]:
        """From the pair."""
        return split_pair(self.pair)

    @property
    def tokenised(self) -> bool:
        """The form most papers score on."""
        return self.form == "tok"

    def read(self, split: str) -> Pairs:
        """The published split; `test` is test_2016_flickr."""
        name = MULTI30K_FILES[check_split(split)]
        middle = "lc.norm.tok." if self.form == "tok" else ""
        source, target = (f"{self.form}/{name}.{middle}{language}" for language in self.languages)
        home = find_folder(self.folder, "multi30k", "https://github.com/multi30k/dataset")
        return read_parallel(either(home / source), either(home / target))

    def samples(self) -> list[str]:
        """Sentences in the source's language."""
        return samples_in(self.languages[0])


@dataclass(frozen=True, kw_only=True)
class TatoebaCorpus:
    """Short sentences of tatoeba.org; SHA-1 of the English side modulo 20: 0 is the test, 1 validation."""

    pair: str = "en-zh"
    folder: str | None = None

    def __post_init__(self) -> None:
        known = [*(f"en-{other}" for other in TATOEBA_FILES), *(f"{other}-en" for other in TATOEBA_FILES)]
        check_name(self.pair, known, "language pair")

    @property
    def splits(self) -> tuple[str, ...]:
        """All three."""
        return tuple(SPLITS)

    @property
    def languages(self) -> tuple[str, str]:
        """From the pair."""
        return split_pair(self.pair)

    @property
    def tokenised(self) -> bool:
        """As people write."""
        return False

    def read(self, split: str) -> Pairs:
        """The pairs whose English sentence falls into the split."""
        wanted = {"test": (0,), "validation": (1,), "train": range(2, PARTS)}[check_split(split)]
        source, target = self.languages
        home = find_folder(self.folder, "tatoeba", "https://www.manythings.org/anki")
        english, other = (0, 1) if source == "en" else (1, 0)
        path = either(home / TATOEBA_FILES[target if source == "en" else source])
        pairs = read_tsv(path, source_column=english, target_column=other)
        spoken = (lambda pair: pair.source) if source == "en" else (lambda pair: pair.target)
        kept = tuple(pair for pair in pairs if part_of(spoken(pair), PARTS) in wanted)
        return Pairs(kept, pairs.dropped)

    def samples(self) -> list[str]:
        """Sentences in the source's language."""
        return samples_in(self.languages[0])


def samples_in(language: str) -> list[str]:
    """Sentences in a language, such as zh or zh_CN; none where the language is not known."""
    return list(SENTENCES.get(language.split("_", maxsplit=1)[0], ()))


def split_pair(pair: str) -> tuple[str, str]:
    """`en-de` as its two languages."""
    source, dash, target = pair.partition("-")
    if not dash or not source or not target:
        raise ValueError(f"there is no language pair {pair!r}. Write it as en-de.")
    return source, target


def check_split(split: str) -> str:
    """One of the three."""
    check_name(split, SPLITS, "split")
    return split


def find_folder(given: str | None, name: str, address: str) -> Path:
    """The folder of a published set, below the data folder or the data folder itself."""
    root = given or os.environ.get("REGARD_DATA")
    if not root:
        raise ValueError(
            f"{name} is not part of regard. Name its folder with --data (or REGARD_DATA); it comes from {address}."
        )
    if not Path(root).is_dir():
        raise ValueError(f"the data folder {root} is not there. Name another with --data (or REGARD_DATA).")
    return Path(root) / name if (Path(root) / name).is_dir() else Path(root)


def either(path: Path) -> Path:
    """A file as it is, or compressed."""
    return path if path.exists() else path.with_name(f"{path.name}.gz")


def digest(text: str) -> str:
    """SHA-1 of a sentence, as hexadecimal digits."""
    return sha1(text.encode(), usedforsecurity=False).hexdigest()


def part_of(text: str, parts: int) -> int:
    """Which part of the sentences this one belongs to, the same on every machine."""
    return int(digest(text), 16) % parts


HELD_OUT = 20
"""One source in so many goes to the test, and as many to validation."""

MOST_HELD_OUT, FEWEST = 2000, 3


@dataclass(frozen=True, kw_only=True)
class FileCorpus:
    """Any files: two of equally many lines, or one .tsv or .jsonl with both sides (`target` is then left out).

    Without files for validation, sources are held out of the training files in the order of their SHA-1: the first
    5 % (2,000 at most) are the test, unless it has files, and as many after them validation. With files for validation
    and none for the test there is no test.
    """

    source: str
    target: str | None = None
    valid_source: str | None = None
    valid_target: str | None = None
    test_source: str | None = None
    test_target: str | None = None
    pair: str = ""

    def __post_init__(self) -> None:
        if self.pair:
            split_pair(self.pair)

    @property
    def splits(self) -> tuple[str, ...]:
        """All three, or without a test where validation has files and the test has none."""
        whole = self.valid_source is None or self.test_source is not None
        return ("train", "validation", "test") if whole else ("train", "validation")

    @property
    def languages(self) -> tuple[str, str]:
        """From `pair`, else from the files' endings (train.en, train.zh)."""
        if self.pair:
            return split_pair(self.pair)
        source, target = (ending(name) for name in (self.source, self.target))
        return source, target

    @property
    def tokenised(self) -> bool:
        """As they are: nothing is known of them."""
        return False

    def read(self, split: str) -> Pairs:
        """The files named for the split, or what is held out for it."""
        check_split(split)
        named = {"validation": (self.valid_source, self.valid_target), "test": (self.test_source, self.test_target)}
        if split in named and named[split] != (None, None):
            return read_files(*named[split])
        if split == "test" and self.valid_source is not None:
            raise ValueError(
                "this run has no test files. Evaluate on validation, or name files with --source, --target."
            )
        pairs = read_files(self.source, self.target)
        if self.valid_source is not None:
            return pairs
        return held_out_split(pairs, split, [name for name, files in named.items() if files == (None, None)])

    def samples(self) -> list[str]:
        """Sentences in the source's language."""
        return samples_in(self.languages[0])


def read_files(source: str | None, target: str | None) -> Pairs:
    """Pairs of two files of lines, or of one file that has both sides."""
    if source is None:
        raise ValueError("there is a file of targets and none of sources. Name both, or one .tsv or .jsonl as source.")
    name = source.removesuffix(".gz")
    if target is not None:
        return read_parallel(Path(source), Path(target))
    if name.endswith((".tsv", ".jsonl", ".json")):
        return read_tsv(Path(source)) if name.endswith(".tsv") else read_json_lines(Path(source))
    raise ValueError(f"{source} has one side only. Name the other (--target), or one .tsv or .jsonl file with both.")


def held_out_split(pairs: Pairs, split: str, held_out: list[str]) -> Pairs:
    """The pairs of a split where some are taken out of the training files, by source sentence."""
    sources = sorted({pair.source for pair in pairs}, key=digest)
    if len(sources) < FEWEST:
        raise ValueError(
            f"{len(sources)} different sources are too few to hold some out. Name files with --valid-source, "
            f"--valid-target."
        )
    count = min(max(len(sources) // HELD_OUT, 1), MOST_HELD_OUT)
    kept_for = {"test": set(sources[:count]), "validation": set(sources[count : 2 * count])}
    taken = set().union(*(kept_for[name] for name in held_out))
    wanted = set(sources) - taken if split == "train" else kept_for[split]
    return Pairs(tuple(pair for pair in pairs if pair.source in wanted), pairs.dropped)


def ending(name: str | None) -> str:
    """The language a file's name ends in, or nothing."""
    suffix = Path(name.removesuffix(".gz")).suffix.removeprefix(".") if name else ""
    return suffix if len(suffix) == 2 else ""
