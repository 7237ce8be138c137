"""Where a run's sentences come from: settings that can read their own splits, and know their languages.

    corpus.read("train" | "validation" | "test") -> Pairs

Published sets are read from a folder named by `folder`, or by the environment variable REGARD_DATA. A set without
splits is split by the SHA-1 of a sentence, so that the same sentence is always on the same side.
"""

import os
from dataclasses import dataclass
from hashlib import sha1
from pathlib import Path
from typing import Literal, Protocol, runtime_checkable

from regard.contracts import check_name
from regard.data import SPLITS, Pairs, read_parallel, read_tsv

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

    def samples(self) -> list[str]:
        """Sources to begin with; empty where none are known."""
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
