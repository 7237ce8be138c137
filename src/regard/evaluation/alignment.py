"""Alignment error rate: links between words of two sentences, against those that people drew.

    precision = |A and P| / |A|     recall = |A and S| / |S|     AER = 1 - (|A and S| + |A and P|) / (|A| + |S|)

A are the links to judge, S the sure ones of the gold standard, P the possible ones, S among them; counted over the
whole corpus. Och and Ney 2003. https://aclanthology.org/J03-1002/

A link is (source word, target word), both counted from 0, whatever the file counts from.
"""

from collections.abc import Collection, Iterable, Iterator, Sequence
from dataclasses import dataclass, field
from pathlib import Path

from regard.decoding import Link, from_pharaoh


@dataclass(frozen=True)
class Gold:
    """The links of one sentence pair: the sure ones, and the possible ones with the sure among them."""

    sure: frozenset[Link]
    possible: frozenset[Link] = field(default_factory=frozenset)

    def __post_init__(self) -> None:
        object.__setattr__(self, "possible", self.sure | self.possible)


@dataclass(frozen=True)
class AlignmentQuality:
    """Shares from 0 to 1; `f1` is the harmonic mean of precision and recall, 1 - AER where all links are sure."""

    error_rate: float
    precision: float
    recall: float

    @property
    def f1(self) -> float:
        """Harmonic mean of precision and recall."""
        total = self.precision + self.recall
        return 2 * self.precision * self.recall / total if total else 0.0


def alignment_quality(links: Sequence[Collection[Link]], gold: Sequence[Gold]) -> AlignmentQuality:
    """Error rate, precision and recall of a corpus; precision without any link is 0."""
    if len(links) != len(gold):
        raise ValueError(f"there are links for {len(links)} sentence pairs but gold for {len(gold)}. Give one of each.")
    num_links = num_sure = found_sure = found_possible = 0
    for given, truth in zip(links, gold, strict=True):
        chosen = set(given)
        num_links += len(chosen)
        num_sure += len(truth.sure)
        found_sure += len(chosen & truth.sure)
        found_possible += len(chosen & truth.possible)
    if not num_sure:
        raise ValueError(f"the gold of {len(gold)} sentence pairs has no sure link. Nothing can be judged against it.")
    return AlignmentQuality(
        error_rate=1 - (found_sure + found_possible) / (num_links + num_sure),
        precision=found_possible / num_links if num_links else 0.0,
        recall=found_sure / num_sure,
    )


def alignment_error_rate(
    links: Sequence[Collection[Link]], sure: Sequence[Collection[Link]], possible: Sequence[Collection[Link]]
) -> float:
    """The error rate alone, from links that need not come from a file."""
    if len(sure) != len(possible):
        raise ValueError(f"there are sure links for {len(sure)} sentence pairs but possible ones for {len(possible)}.")
    gold = [Gold(frozenset(certain), frozenset(more)) for certain, more in zip(sure, possible, strict=True)]
    return alignment_quality(links, gold).error_rate


def swap(links: Iterable[Link]) -> list[Link]:
    """Links of the other direction: a system that read the target and wrote the source."""
    return [(target, source) for source, target in links]


def read_pharaoh(path: Path) -> list[list[Link]]:
    """Links as aligners write them: a line a sentence pair, `i-j`, counted from 0; an empty line has none."""
    lines = list(_lines(path))
    try:
        return [from_pharaoh(line, number=number) for number, line in lines]
    except ValueError as error:
        raise ValueError(f"{path}, {error}") from None


def read_gold(path: Path) -> list[Gold]:
    """Links as people drew them: a line a sentence pair, `i-j` sure and `ipj` possible, counted from 1."""
    return [
        Gold(
            frozenset(_link(path, number, word, "-") for word in line.split() if "p" not in word),
            frozenset(_link(path, number, word, "p") for word in line.split() if "p" in word),
        )
        for number, line in _lines(path)
    ]


def read_numbered_gold(path: Path, *, count: int) -> list[Gold]:
    """A line a link: `sentence source target`, and `S` or `P` after it where not all are sure; counted from 1.

    The form of the shared tasks: Mihalcea and Pedersen 2003. https://aclanthology.org/W03-0301/
    `count` is the number of sentence pairs, for the last ones may have no link.
    """
    links: list[dict[str, set[Link]]] = [{"S": set(), "P": set()} for _ in range(count)]
    for number, line in _lines(path):
        words = line.split()
        kind = words[3] if len(words) == 4 else "S"
        if len(words) not in (3, 4) or kind not in ("S", "P") or not words[0].isdecimal():
            raise ValueError(
                f"{path}, line {number}: {line!r} is no link. Write `sentence source target`, or S or P after."
            )
        if not 1 <= int(words[0]) <= count:
            raise ValueError(f"{path}, line {number}: sentence {words[0]} is not among 1 to {count}. Check the count.")
        links[int(words[0]) - 1][kind].add(_link(path, number, f"{words[1]}-{words[2]}", "-"))
    return [Gold(frozenset(kinds["S"]), frozenset(kinds["P"])) for kinds in links]


def _lines(path: Path) -> Iterator[tuple[int, str]]:
    try:
        text = path.read_text(encoding="utf-8")
    except UnicodeDecodeError as error:
        raise ValueError(f"{path} is not UTF-8 at byte {error.start}. Links are plain text; check the file.") from None
    yield from enumerate(text.splitlines(), start=1)


def _link(path: Path, number: int, word: str, between: str) -> Link:
    """One link of a file that counts from 1, counted from 0."""
    source, _, target = word.partition(between)
    if not (source.isdecimal() and target.isdecimal()):
        raise ValueError(
            f"{path}, line {number}: {word!r} is no link. Write two numbers with {between!r} between them."
        )
    if min(int(source), int(target)) < 1:
        raise ValueError(f"{path}, line {number}: {word!r} has a word 0, but this form counts from 1. Is it Pharaoh?")
    return int(source) - 1, int(target) - 1
