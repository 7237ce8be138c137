"""Sentences from any files: two of lines, or one table; validation and test are held out where they have none."""

from dataclasses import dataclass
from pathlib import Path

from regard.data import Pairs, read_json_lines, read_parallel, read_tsv
from regard.recipes.corpora import check_split, digest, samples_in, split_pair

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
