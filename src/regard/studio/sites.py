"""Where a system attends: every attention inside it, found by letting it read three tokens and write seven.

A language model reads seven, a classifier three.
"""

import re
from collections.abc import Sequence
from dataclasses import dataclass
from typing import Any

import torch
from jaxtyping import Float, Shaped
from torch import Tensor

from regard.attention import SCORES, AttentionMap, Trace, trace
from regard.attention.alignments import ALIGNMENTS
from regard.attention.biased import Biased
from regard.contracts import BOS, EOS, UNK, Classified, Read, Sequences
from regard.decoding import device_of, evaluating
from regard.studio.places import laid_out
from regard.studio.schema import Kind, SideName, Site, SiteKind

NUM_READ, NUM_WRITTEN = 3, 7
SIDES: dict[SiteKind, tuple[SideName, SideName]] = {
    "alignment": ("target", "source"),
    "source": ("source", "source"),
    "cross": ("target", "source"),
    "target": ("read", "read"),
}
ALIGNMENT = Site(
    path="alignment", layer="", kind="alignment", heads=1, queries="target", keys="source", score=None, align=None
)
LAYER = re.compile(r"^(.*?\d+)(?:\.|$)")


@dataclass(frozen=True, kw_only=True)
class SiteFacts:
    """What a site is, whatever it reads."""

    kind: SiteKind
    heads: int
    score: str
    align: str
    numbers_per_key: int
    """Of key and value together, in all heads."""
    is_tape: bool
    """Whether each step reads a memory of its own, one longer than the last."""
    is_stepwise: bool = False
    """Whether every query is a read of its own."""

    def describe(self, path: str) -> Site:
        """As the page is told."""
        queries, keys = SIDES[self.kind]
        layer = LAYER.match(path)
        return Site(
            path=path,
            layer=layer[1] if layer else path,
            kind=self.kind,
            heads=self.heads,
            queries=queries,
            keys=keys,
            score=self.score,
            align=self.align,
        )


def find_sites(model: Any, kind: Kind) -> dict[str, SiteFacts]:
    """Module path -> what attends there, in a system of this kind."""
    if kind == "language":
        maps, _ = read_at(model, [UNK] * NUM_WRITTEN)
        return {path: facts_of(reads, "target") for path, reads in maps.items()}
    if kind == "sentences":
        maps, said = classify_at(model, [UNK] * NUM_READ)
        # rows of attention ask for the whole sentence; everything else is asked by a word
        asked: SiteKind = "source" if said.weights is None else "cross"
        return {path: facts_of(reads, asked) for path, reads in maps.items()}
    maps = look_at(model, [*[UNK] * (NUM_READ - 1), EOS], [BOS, *[UNK] * (NUM_WRITTEN - 1)])
    return {path: facts_of(reads, kind_of(reads)) for path, reads in maps.items()}


def look_at(model: Any, source: list[int], target: list[int]) -> Trace:
    """Every read of the model while it writes this target, given the tokens before each."""
    device = device_of(model)
    rows = [Sequences.of([row]) for row in (source, target)]
    with evaluating(model), trace(model) as maps:
        model(*(Sequences(row.ids.to(device), row.lengths.to(device)) for row in rows))
    return maps


def read_at(model: Any, tokens: list[int]) -> tuple[Trace, Read]:
    """Every read of a language model while it reads these tokens from the start, and what it made of them."""
    with evaluating(model), trace(model) as maps:
        done = model.read(torch.tensor([tokens], device=device_of(model)), model.start(1))
    return maps, done


def classify_at(model: Any, tokens: list[int]) -> tuple[Trace, Classified]:
    """Every read of a classifier while it reads this sentence, and what it says of it."""
    row, device = Sequences.of([tokens]), device_of(model)
    with torch.inference_mode(), trace(model) as maps:
        said = model(Sequences(row.ids.to(device), row.lengths.to(device)))
    return maps, said


def kind_of(reads: tuple[AttentionMap, ...]) -> SiteKind:
    """The encoder asks as often as there are source tokens; whoever has other keys than those reads its own words."""
    asked, keys = sum(read.weights.shape[-2] for read in reads), reads[-1].weights.shape[-1]
    return "source" if asked == NUM_READ else "cross" if keys == NUM_READ else "target"


def facts_of(reads: tuple[AttentionMap, ...], kind: SiteKind) -> SiteFacts:
    """What a site is, from the reads that it made."""
    last = reads[-1]
    heads = last.weights.shape[1] if last.weights.ndim > 3 else 1
    return SiteFacts(
        kind=kind,
        heads=heads,
        score=name_of(last.score),
        align=name_of(last.align),
        numbers_per_key=heads * (last.keys.shape[-1] + last.values.shape[-1]),
        is_tape=len({read.keys.shape[-2] for read in reads}) > 1,
        is_stepwise=len(reads) > 1,
    )


def name_of(part: object) -> str:
    """As its table calls it, or its class."""
    inner = part.score if isinstance(part, Biased) else part
    for table in (SCORES, ALIGNMENTS):
        for name, entry in table.items():
            if type(inner) is entry.build:
                return name
    return type(inner).__name__


def of_row(tensor: Shaped[Tensor, "1 *H N d"]) -> Shaped[Tensor, "heads N d"]:
    """The first row of the batch, its heads in front."""
    return tensor[0] if tensor.ndim > 3 else tensor[:1]


def joined(
    reads: tuple[AttentionMap, ...], num_keys: int, head: int | None = None, firsts: Sequence[int] | None = None
) -> Float[Tensor, "heads Q K"]:
    """The weights of a site's reads below each other, of all heads or of one.

    Keys that a step had not seen yet have weight 0 there. `firsts` says for which token the first key of each read is.
    """
    chosen = slice(None) if head is None else slice(head, head + 1)
    parts = (of_row(read.weights)[chosen] for read in reads)
    placed = zip(parts, firsts or [0] * len(reads), strict=True)
    return torch.cat([laid_out(part, first, num_keys) for part, first in placed], dim=-2).float()
