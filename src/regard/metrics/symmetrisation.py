"""One alignment from two: the links of an aligner, and of the same aligner for the other direction.

An aligner links each target word to at most one source word; the aligner of the other direction, each source word to
at most one target word. Both sets hold (source, target), so those of the other direction pass through `swap` first.

    intersection          links in both sets: precise
    union                 links in either set: complete
    grow-diagonal         the intersection; then, while there is one, a link of the union beside an accepted link
                          (corners included), if it links a word without a link
    grow-diagonal-final   then also the other links of either set, if they link a word without a link

"A word without a link" has two readings: one of the link's two words is enough ("either", Koehn, Och and Marcu 2003,
section 4.2, https://aclanthology.org/N03-1017/), or neither word may have a link ("both", more precise and less
complete). Moses calls `final="both"` grow-diag-final-and. Och and Ney 2003, section 5. https://aclanthology.org/J03-1002/
"""

from collections.abc import Collection, Iterable
from dataclasses import dataclass, field
from typing import Literal, get_args

from regard._utils import check_name
from regard.metrics.alignment import Link

Unlinked = Literal["either", "both"]
NEIGHBOURS = ((0, 1), (0, -1), (1, 0), (-1, 0), (-1, 1), (-1, -1), (1, -1), (1, 1))
"""Sides before corners. The order matters where two neighbours compete for one word."""


def intersection(forward: Collection[Link], reverse: Collection[Link]) -> list[Link]:
    """The links in both sets."""
    return sorted(set(forward) & set(reverse))


def union(forward: Collection[Link], reverse: Collection[Link]) -> list[Link]:
    """The links in either set."""
    return sorted(set(forward) | set(reverse))


def grow_diagonal(forward: Collection[Link], reverse: Collection[Link], *, unlinked: Unlinked = "either") -> list[Link]:
    """The intersection, and neighbours of its links from the union."""
    return sorted(_grow(forward, reverse, unlinked).links)


def grow_diagonal_final(
    forward: Collection[Link], reverse: Collection[Link], *, unlinked: Unlinked = "either", final: Unlinked = "either"
) -> list[Link]:
    """`grow_diagonal`, and then the remaining links of either set, those of `forward` first."""
    check_name(final, get_args(Unlinked), "condition")
    accepted = _grow(forward, reverse, unlinked)
    accepted.add_from(sorted(set(forward)), final)
    accepted.add_from(sorted(set(reverse)), final)
    return sorted(accepted.links)


def _grow(forward: Collection[Link], reverse: Collection[Link], unlinked: Unlinked) -> "_Accepted":
    check_name(unlinked, get_args(Unlinked), "condition")
    accepted, candidates = _Accepted(), set(union(forward, reverse))
    for link in intersection(forward, reverse):
        accepted.add(link)
    # a pass in order of position: links that it adds further on are expanded in the same pass
    grew = True
    while grew:
        grew = False
        for source, target in sorted(candidates):
            if (source, target) in accepted.links:
                neighbours = [(source + down, target + right) for down, right in NEIGHBOURS]
                grew |= accepted.add_from([link for link in neighbours if link in candidates], unlinked)
    return accepted


@dataclass(frozen=True)
class _Accepted:
    """The accepted links, and the words that have one."""

    links: set[Link] = field(default_factory=set)
    sources: set[int] = field(default_factory=set)
    targets: set[int] = field(default_factory=set)

    def add(self, link: Link) -> None:
        self.links.add(link)
        self.sources.add(link[0])
        self.targets.add(link[1])

    def add_from(self, candidates: Iterable[Link], unlinked: Unlinked) -> bool:
        """Add the candidates that meet the condition, in their order; True if there was one."""
        require = all if unlinked == "both" else any
        before = len(self.links)
        for source, target in candidates:
            # every accepted link changes the condition for the next
            if require((source not in self.sources, target not in self.targets)):
                self.add((source, target))
        return len(self.links) > before
