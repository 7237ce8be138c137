"""Word alignments: links, the Pharaoh format, and the alignment error rate.

Alignments as links: which source token, or word, each target token was written from.

The text form is Pharaoh's, a sentence a line: `0-0 1-2` links source 0 to target 0 and source 1 to target 2. Koehn
2004. https://doi.org/10.1007/978-3-540-30194-3_13

Alignment error rate: links between words of two sentences, against those that people drew.

    precision = |A and P| / |A|     recall = |A and S| / |S|     AER = 1 - (|A and S| + |A and P|) / (|A| + |S|)

A are the links to judge, S the sure ones of the gold standard, P the possible ones, S among them; counted over the
whole corpus. Och and Ney 2003. https://aclanthology.org/J03-1002/

A link is (source word, target word), both counted from 0, whatever the file counts from.
"""

import re
from collections.abc import Collection, Iterable, Iterator, Sequence
from dataclasses import dataclass, field
from pathlib import Path

import torch
from jaxtyping import Float
from torch import Tensor

from regard.contracts import Hypothesis

Link = tuple[int, int]
"""Source, target; both counted from 0."""


def links(
    hypothesis: Hypothesis, *, source_words: Sequence[int] | None = None, target_words: Sequence[int] | None = None
) -> list[Link]:
    """Each token of a hypothesis to its best source token; <eos> on either side is left out.

    With the word that each token belongs to (of both sides, without <eos>), words are linked instead of tokens.
    """
    if hypothesis.alignment is None:
        raise ValueError("the hypothesis has no alignment. Decode with return_weights=True, with a model that attends.")
    alignment = hypothesis.alignment[: len(hypothesis.ids), :-1]
    if source_words is None and target_words is None:
        return best_links(alignment)
    targets, sources = alignment.shape
    return best_links(
        merge_words(
            alignment,
            source_words=range(sources) if source_words is None else source_words,
            target_words=range(targets) if target_words is None else target_words,
        )
    )


def best_links(alignment: Float[Tensor, "T source"]) -> list[Link]:
    """Each row's highest column, the first of equals; a row of zeros has none."""
    if not alignment.numel():
        return []
    columns, highest = alignment.argmax(dim=1).tolist(), alignment.amax(dim=1).tolist()
    rows = zip(columns, range(len(columns)), highest, strict=True)
    return sorted((source, target) for source, target, weight in rows if weight > 0)


def merge_words(
    alignment: Float[Tensor, "T source"], *, source_words: Sequence[int], target_words: Sequence[int]
) -> Float[Tensor, "target_words source_words"]:
    """Tokens to words: weights are added over the source tokens of a word, and averaged over the target tokens of one.

    So a row that sums to 1 still does.
    """
    for side, words, count in (("target", target_words, len(alignment)), ("source", source_words, alignment.shape[1])):
        if len(words) != count:
            raise ValueError(
                f"{side}_words names the words of {len(words)} tokens, but the alignment has {count} {side} tokens. "
                f"Give one number for each, and none for <eos>."
            )
        if words and min(words) < 0:
            raise ValueError(f"{side}_words has {min(words)}, expected words counted from 0.")
    by_source = alignment.new_zeros(len(alignment), max(source_words, default=-1) + 1)
    by_source.index_add_(1, torch.tensor(list(source_words), dtype=torch.long), alignment)
    places = torch.tensor(list(target_words), dtype=torch.long)
    merged = alignment.new_zeros(max(target_words, default=-1) + 1, by_source.shape[1])
    counts = places.bincount(minlength=len(merged)).clamp(min=1)
    return merged.index_add_(0, places, by_source) / counts[:, None]


def to_pharaoh(linked: Sequence[Link]) -> str:
    """One line, without its end."""
    return " ".join(f"{source}-{target}" for source, target in linked)


def from_pharaoh(line: str, *, number: int = 1) -> list[Link]:
    """The links of a line; `number` is its own, for the error."""
    found = []
    for word in line.split():
        match = re.fullmatch(r"([0-9]+)-([0-9]+)", word)
        if match is None:
            raise ValueError(f"line {number}: {word!r} is not a link. Expected source-target from 0, such as 0-2.")
        found.append((int(match[1]), int(match[2])))
    return found


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
