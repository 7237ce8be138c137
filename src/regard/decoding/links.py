"""Alignments as links: which source token, or word, each target token was written from.

The text form is Pharaoh's, a sentence a line: `0-0 1-2` links source 0 to target 0 and source 1 to target 2. Koehn
2004. https://doi.org/10.1007/978-3-540-30194-3_13
"""

import re
from collections.abc import Sequence

import torch
from jaxtyping import Float
from torch import Tensor

from regard.decoding.hypothesis import Hypothesis

Link = tuple[int, int]
"""Source, target; both counted from 0."""


def links(
    hypothesis: Hypothesis, *, source_words: Sequence[int] | None = None, target_words: Sequence[int] | None = None
) -> list[Link]:
    """Each token of a hypothesis to its best source token; <eos> on either side is left out.

    With the word that each token belongs to (of both sides, without <eos>), words are linked instead of tokens.
    """
    if hypothesis.alignment is None:
        raise ValueError(
            "the hypothesis has no alignment. Decode with return_alignment=True, with a model that attends."
        )
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
