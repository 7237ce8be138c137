"""Looks that are kept for a while: what the page was told of them, and the tensors that it may still ask for.

Shapes: H heads, Q queries, K keys.
"""

from collections import OrderedDict
from dataclasses import dataclass, field
from functools import cached_property
from threading import Lock

import torch
from jaxtyping import Float
from torch import Tensor

from regard.attention import AttentionMap
from regard.contracts import BOS, EOS
from regard.studio.errors import MissingError
from regard.studio.examples import Worked
from regard.studio.places import first_key
from regard.studio.schema import Look, Reading, Sorted
from regard.studio.shelf import Shelved
from regard.studio.sites import ALIGNMENT, joined

MOST_BYTES, MOST_LOOKS = 1 << 30, 64


@dataclass(frozen=True, kw_only=True)
class Written:
    """What a system read and wrote, as tokens."""

    source: list[int]
    answer: tuple[int, ...]
    finished: bool

    @property
    def labels(self) -> list[int]:
        """What each step writes."""
        return [*self.answer, *([EOS] if self.finished else [])]

    @property
    def read(self) -> list[int]:
        """What each step reads."""
        return [BOS, *self.labels[:-1]]


@dataclass(frozen=True, kw_only=True)
class Kept:
    """A look with its tensors."""

    message: Look
    shelved: Shelved | Worked
    written: Written
    reads: dict[str, tuple[AttentionMap, ...]]
    alignment: Float[Tensor, "T source"] | None = None
    logits: Float[Tensor, "T vocab"] | None = None
    """What a language model expects behind each token."""
    reading: Reading | None = None
    sorted: Sorted | None = None
    swapped: dict[str, Float[Tensor, "H Q K"]] = field(default_factory=dict)

    def weights(self, path: str) -> Float[Tensor, "H Q K"]:
        """All heads of one site; a column for every token of the keys' side."""
        formed = self._formed(path)
        if formed is not None:
            return formed
        return joined(self.site_reads(path), self.num_keys(path), firsts=self.first_keys(path))

    def head(self, path: str, head: int) -> Float[Tensor, "Q K"]:
        """One head of a site, or for -1 the mean of all."""
        formed = self._formed(path)
        # of what was read one head alone is put together: a site may have many
        reads = self.site_reads(path) if formed is None else ()
        count = self.shelved.sites[path].heads if formed is None else formed.shape[0]
        if head >= count:
            raise MissingError(f"{path} has {count} heads, counted from 0; there is no head {head}.")
        if head < 0:
            return self.weights(path).mean(dim=0)
        if formed is not None:
            return formed[head]
        return joined(reads, self.num_keys(path), head, self.first_keys(path))[0]

    def _formed(self, path: str) -> Float[Tensor, "H Q K"] | None:
        """Weights that were not read but made: a swap's, or the system's own alignment."""
        if path in self.swapped:
            return self.swapped[path]
        return self.alignment[None].float() if path == ALIGNMENT.path and self.alignment is not None else None

    def num_keys(self, path: str) -> int:
        """How many tokens the keys' side of a site has."""
        name = next(site.keys for site in self.message.sites if site.path == path)
        return next(len(side.tokens) for side in self.message.sides if side.name == name)

    def site_reads(self, path: str) -> tuple[AttentionMap, ...]:
        """The reads of one site, in order."""
        if path not in self.reads:
            there = ", ".join(self.reads) or "none"
            raise MissingError(f"{self.message.model} has no attention at {path!r}; there is {there}.")
        return self.reads[path]

    def first_keys(self, path: str) -> list[int]:
        """For each read of a site, the token that its first key stands for."""
        reads = self.site_reads(path)
        if self.message.kind != "language":
            return [0] * len(reads)
        firsts, asked = [], 0
        for read in reads:
            firsts.append(first_key(read, asked, is_stepwise=self.shelved.sites[path].is_stepwise))
            asked += read.weights.shape[-2]
        return firsts

    @cached_property
    def size(self) -> int:
        """Bytes that it holds; what several reads share counts once."""
        reads = (read for reads in self.reads.values() for read in reads)
        tensors = (tensor for read in reads for part in (read, read.look) for tensor in vars(part).values())
        kept = [*tensors, self.alignment, self.logits, *self.swapped.values()]
        storages = [tensor.untyped_storage() for tensor in kept if isinstance(tensor, torch.Tensor)]
        return sum({storage.data_ptr(): storage.nbytes() for storage in storages}.values())


class Looks:
    """The last looks, as many as fit."""

    def __init__(self) -> None:
        self._kept: OrderedDict[str, Kept] = OrderedDict()
        self._lock = Lock()

    def get(self, name: str) -> Kept | None:
        """A look, if it is still kept."""
        with self._lock:
            if name in self._kept:
                self._kept.move_to_end(name)
            return self._kept.get(name)

    def find(self, name: str) -> Kept:
        """A look that is still kept."""
        kept = self.get(name)
        if kept is None:
            raise MissingError(f"the look {name!r} is no longer kept. Ask for it again with POST /api/looks.")
        return kept

    def keep(self, kept: Kept) -> Kept:
        """Hold on to it; let go of looks at the same system's older weights, and of the oldest for want of room."""
        with self._lock:
            system, version = kept.shelved.name, kept.shelved.version
            for name, other in list(self._kept.items()):
                if other.shelved.name == system and other.shelved.version != version:
                    del self._kept[name]
            self._kept[kept.message.id] = kept
            self._kept.move_to_end(kept.message.id)
            while len(self._kept) > 1 and (
                len(self._kept) > MOST_LOOKS or sum(one.size for one in self._kept.values()) > MOST_BYTES
            ):
                self._kept.popitem(last=False)
        return kept
