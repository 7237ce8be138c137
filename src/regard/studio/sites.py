"""Where a system attends: every attention inside it, found by letting it read three tokens and write seven."""

import re
from dataclasses import dataclass
from typing import Any

import torch
import torch.nn.functional as F
from jaxtyping import Float, Shaped
from torch import Tensor

from regard.attention import SCORES, AttentionMap, Trace, trace
from regard.attention.alignments import ALIGNMENTS
from regard.attention.biased import Biased
from regard.contracts import BOS, EOS, UNK, Sequences
from regard.decoding import evaluating
from regard.studio.schema import SideName, Site, SiteKind

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


def find_sites(model: Any) -> dict[str, SiteFacts]:
    """Module path -> what attends there."""
    maps = look_at(model, [*[UNK] * (NUM_READ - 1), EOS], [BOS, *[UNK] * (NUM_WRITTEN - 1)])
    return {path: facts_of(reads) for path, reads in maps.items()}


def look_at(model: Any, source: list[int], target: list[int]) -> Trace:
    """Every read of the model while it writes this target, given the tokens before each."""
    device = next(iter(model.parameters())).device
    rows = [Sequences.of([row]) for row in (source, target)]
    with evaluating(model), trace(model) as maps:
        model(*(Sequences(row.ids.to(device), row.lengths.to(device)) for row in rows))
    return maps


def facts_of(reads: tuple[AttentionMap, ...]) -> SiteFacts:
    """The encoder asks as often as there are source tokens; whoever has other keys than those reads its own words."""
    asked, keys = sum(read.weights.shape[-2] for read in reads), reads[-1].weights.shape[-1]
    kind: SiteKind = "source" if asked == NUM_READ else "cross" if keys == NUM_READ else "target"
    last = reads[-1]
    heads = last.weights.shape[1] if last.weights.ndim > 3 else 1
    return SiteFacts(
        kind=kind,
        heads=heads,
        score=name_of(last.score),
        align=name_of(last.align),
        numbers_per_key=heads * (last.keys.shape[-1] + last.values.shape[-1]),
        is_tape=len({read.keys.shape[-2] for read in reads}) > 1,
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


def joined(reads: tuple[AttentionMap, ...], num_keys: int, head: int | None = None) -> Float[Tensor, "heads Q K"]:
    """The weights of a site's reads below each other, of all heads or of one.

    Keys that a step had not seen yet have weight 0 there.
    """
    chosen = slice(None) if head is None else slice(head, head + 1)
    parts = [of_row(read.weights)[chosen] for read in reads]
    return torch.cat([F.pad(part, (0, num_keys - part.shape[-1])) for part in parts], dim=-2).float()
