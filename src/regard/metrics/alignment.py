"""Word alignments: links from attention weights, the Pharaoh format, and the alignment error rate.

    precision = |A and P| / |A|     recall = |A and S| / |S|     AER = 1 - (|A and S| + |A and P|) / (|A| + |S|)

A are the links to evaluate, S the sure links of the gold standard and P the possible ones, which include S; all are
counted over the whole corpus. Och and Ney 2003. https://aclanthology.org/J03-1002/

A link is (source word, target word), both counted from 0, whatever a file counts from. The text form is Pharaoh's, one
sentence per line: `0-0 1-2` links source 0 to target 0 and source 1 to target 2. Koehn 2004.
https://doi.org/10.1007/978-3-540-30194-3_13
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
    """Link each token of a hypothesis to its best source token; <eos> is left out on both sides.

    `source_words` and `target_words` give the word of each token, without <eos>; then words are linked, not tokens.
    """
    if hypothesis.weights is None:
        raise ValueError("the hypothesis has no alignment. Decode with return_weights=True, with a model that attends.")
    # ids have no <eos>, the last source position is <eos>
    alignment = hypothesis.weights[: len(hypothesis.ids), :-1]
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
    """Link each target to the source with the highest weight, the first of equals; a row of zeros has no link."""
    if not alignment.numel():
        return []
    # all rows at once: the weights may be on a GPU, and each transfer waits for it
    columns, highest = alignment.argmax(dim=1).tolist(), alignment.amax(dim=1).tolist()
    rows = zip(columns, range(len(columns)), highest, strict=True)
    return sorted((source, target) for source, target, weight in rows if weight > 0)


def merge_words(
    alignment: Float[Tensor, "T source"], *, source_words: Sequence[int], target_words: Sequence[int]
) -> Float[Tensor, "target_words source_words"]:
    """Weights of words from weights of tokens: summed over a word's source tokens, averaged over its target tokens.

    Rows that sum to 1 still do. Koehn and Knowles 2017, section 3.5. https://arxiv.org/abs/1706.03872
    """
    for side, words, count in (("target", target_words, len(alignment)), ("source", source_words, alignment.shape[1])):
        if len(words) != count:
            raise ValueError(
                f"{side}_words has {len(words)} entries, but the alignment has {count} {side} tokens. "
                f"Give one word number for each token, and none for <eos>."
            )
        if words and min(words) < 0:
            raise ValueError(f"{side}_words has the number {min(words)}. Count the words from 0.")
    # source side first: sums, then means over the target side
    # word numbers may have gaps, so the largest one gives the size
    by_source = alignment.new_zeros(len(alignment), max(source_words, default=-1) + 1)
    by_source.index_add_(1, torch.tensor(list(source_words), dtype=torch.long, device=alignment.device), alignment)
    indices = torch.tensor(list(target_words), dtype=torch.long, device=alignment.device)
    merged = alignment.new_zeros(max(target_words, default=-1) + 1, by_source.shape[1])
    # words without a token keep zeros instead of 0 / 0
    counts = indices.bincount(minlength=len(merged)).clamp(min=1)
    return merged.index_add_(0, indices, by_source) / counts[:, None]


def to_pharaoh(links: Sequence[Link]) -> str:
    """One line, without a line end."""
    return " ".join(f"{source}-{target}" for source, target in links)


def from_pharaoh(line: str, *, number: int = 1) -> list[Link]:
    """The links of a line; `number` is its line number, for the error message."""
    links = []
    for word in line.split():
        # digits only: int() would accept "+1" and "1_0"
        match = re.fullmatch(r"([0-9]+)-([0-9]+)", word)
        if match is None:
            raise ValueError(f"line {number}: {word!r} is not a link. Expected source-target from 0, such as 0-2.")
        links.append((int(match[1]), int(match[2])))
    return links


@dataclass(frozen=True)
class Gold:
    """The gold links of one sentence pair; `possible` always includes `sure`."""

    sure: frozenset[Link]
    possible: frozenset[Link] = field(default_factory=frozenset)

    def __post_init__(self) -> None:
        object.__setattr__(self, "possible", self.sure | self.possible)


@dataclass(frozen=True)
class AlignmentQuality:
    """Error rate, precision and recall, from 0 to 1; where all gold links are sure, `f1` is 1 - error rate."""

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
    # counts are summed over the corpus before the division: the rates are not means over sentences
    num_links = num_sure = num_correct_sure = num_correct_possible = 0
    for sentence_links, truth in zip(links, gold, strict=True):
        # a link that is listed twice counts once
        distinct = set(sentence_links)
        num_links += len(distinct)
        num_sure += len(truth.sure)
        num_correct_sure += len(distinct & truth.sure)
        num_correct_possible += len(distinct & truth.possible)
    if not num_sure:
        raise ValueError(
            f"the gold of {len(gold)} sentence pairs has no sure link, so recall is undefined. Mark at least one."
        )
    return AlignmentQuality(
        error_rate=1 - (num_correct_sure + num_correct_possible) / (num_links + num_sure),
        precision=num_correct_possible / num_links if num_links else 0.0,
        recall=num_correct_sure / num_sure,
    )


def alignment_error_rate(
    links: Sequence[Collection[Link]], sure: Sequence[Collection[Link]], possible: Sequence[Collection[Link]]
) -> float:
    """The error rate alone, from plain collections of links."""
    if len(sure) != len(possible):
        raise ValueError(
            f"there are sure links for {len(sure)} sentence pairs but possible ones for {len(possible)}. Give one "
            f"collection of each for every pair, empty if there are none."
        )
    gold = [Gold(frozenset(ours), frozenset(others)) for ours, others in zip(sure, possible, strict=True)]
    return alignment_quality(links, gold).error_rate


def swap(links: Iterable[Link]) -> list[Link]:
    """Links of the other direction, as of a system that translates the target into the source."""
    return [(target, source) for source, target in links]


def read_pharaoh(path: Path) -> list[list[Link]]:
    """Read a Pharaoh file: one sentence pair per line, `i-j` counted from 0; an empty line has no link."""
    lines = list(_lines(path))
    try:
        # line numbers from 1, for the error message
        return [from_pharaoh(line, number=number) for number, line in lines]
    except ValueError as error:
        raise ValueError(f"{path}, {error}") from None


def read_gold(path: Path) -> list[Gold]:
    """Read manual links: one sentence pair per line, `i-j` sure and `ipj` possible, counted from 1."""
    return [
        Gold(
            frozenset(_link(path, number, word, "-") for word in line.split() if "p" not in word),
            frozenset(_link(path, number, word, "p") for word in line.split() if "p" in word),
        )
        for number, line in _lines(path)
    ]


def read_numbered_gold(path: Path, *, count: int) -> list[Gold]:
    """Read one link per line: `sentence source target`, then optionally `S` (sure) or `P` (possible); counted from 1.

    The format of the shared tasks: Mihalcea and Pedersen 2003. https://aclanthology.org/W03-0301/
    `count` is the number of sentence pairs, because the last ones may have no link.
    """
    links: list[dict[str, set[Link]]] = [{"S": set(), "P": set()} for _ in range(count)]
    for number, line in _lines(path):
        words = line.split()
        # files without a fourth column have only sure links
        kind = words[3] if len(words) == 4 else "S"
        if len(words) not in (3, 4) or kind not in ("S", "P") or not words[0].isdecimal():
            raise ValueError(
                f"{path}, line {number}: {line!r} is not a link. Write `sentence source target`, and S or P behind it."
            )
        if not 1 <= int(words[0]) <= count:
            raise ValueError(
                f"{path}, line {number}: sentence {words[0]} is outside 1 to {count}. Pass the number of sentence "
                f"pairs as count."
            )
        # a set: a link that is repeated in the file counts once
        links[int(words[0]) - 1][kind].add(_link(path, number, f"{words[1]}-{words[2]}", "-"))
    return [Gold(frozenset(kinds["S"]), frozenset(kinds["P"])) for kinds in links]


def _lines(path: Path) -> Iterator[tuple[int, str]]:
    try:
        text = path.read_text(encoding="utf-8")
    # its own message names neither the file nor a way out
    except UnicodeDecodeError as error:
        raise ValueError(f"{path} is not UTF-8 at byte {error.start}. Give a plain text file of links.") from None
    yield from enumerate(text.splitlines(), start=1)


def _link(path: Path, number: int, word: str, between: str) -> Link:
    """One link of a file that counts from 1, counted from 0."""
    source, _, target = word.partition(between)
    if not (source.isdecimal() and target.isdecimal()):
        raise ValueError(
            f"{path}, line {number}: {word!r} is not a link. Write two numbers with {between!r} between them."
        )
    # only formats that count from 1 come here; Pharaoh files have `from_pharaoh`
    if min(int(source), int(target)) < 1:
        raise ValueError(
            f"{path}, line {number}: {word!r} has a word 0, but this format counts from 1. Read Pharaoh files with "
            f"read_pharaoh."
        )
    return int(source) - 1, int(target) - 1
