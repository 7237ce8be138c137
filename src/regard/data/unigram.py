"""The unigram vocabulary: pieces whose likeliest splits explain the text best.

    p(text) = sum over all splits of the text into pieces of  prod p(piece)

Kudo 2018, section 3.2. https://arxiv.org/abs/1804.10959
Begin with every frequent piece. Estimate p by expectation-maximisation, drop the quarter of the pieces whose loss hurts
least, and repeat until few enough are left; single characters stay.

Written here because the tokenizers library's trainer goes through a hash table in an order that differs from process to
process, and gives other probabilities each time. All texts are worked on together, one position after the other.

Departs from the paper: the loss of a piece is its expected count times log p(piece) / p(its best split), which leaves
out what its parts gain from being used more.
"""

from collections import Counter
from collections.abc import Mapping, Sequence

import numpy as np
from jaxtyping import Bool, Float, Int

LONGEST_PIECE = 16
LONGEST_TEXT = 24
"""Longer texts are learned from in parts, so that no probability falls under the smallest number."""

SEEDS = 10
"""Pieces to begin with, for each one wanted."""

KEPT = 0.75
MIN_COUNT = 1e-3


def learn_pieces(counts: Mapping[str, int], size: int) -> list[tuple[str, float]]:
    """At most `size` pieces with their log-probabilities, likeliest first; `counts` says how often each text occurs."""
    parts: Counter[str] = Counter()
    for text, count in counts.items():
        for first in range(0, len(text), LONGEST_TEXT):
            parts[text[first : first + LONGEST_TEXT]] += count
    texts = sorted(parts)
    weights = np.array([parts[text] for text in texts], dtype=np.float64)
    pieces, found = _seeds(parts, size)
    single = np.array([len(piece) == 1 for piece in pieces])
    alive = np.ones(len(pieces), dtype=bool)
    text_splits, piece_splits = Splits(texts, pieces, whole=True), Splits(pieces, pieces, whole=False)
    chances = found / found.sum()
    while True:
        for _ in range(2):
            expected = np.where(alive, np.maximum(text_splits.expected(chances, weights), MIN_COUNT), 0.0)
            chances = expected / expected.sum()
        if alive.sum() <= size:
            break
        logs = np.log(np.where(alive, chances, 1.0))
        losses = np.where(single, np.inf, expected * (logs - piece_splits.best(logs)))
        order = np.argsort(np.where(alive, -losses, np.inf), kind="stable")
        alive[order[max(size, int(KEPT * alive.sum())) :]] = False
        chances = np.where(alive, chances, 0.0)
        text_splits.keep(alive)
        piece_splits.keep(alive)
    made = [(pieces[place], round(float(np.log(chances[place])), 6)) for place in np.flatnonzero(alive)]
    return sorted(made, key=lambda piece: (-piece[1], piece[0]))


def _seeds(texts: Mapping[str, int], size: int) -> tuple[list[str], Float[np.ndarray, " P"]]:
    """All characters and the most frequent longer pieces, in the order of their spelling, with their counts.

    A piece can only be frequent if it is without its last character.
    """
    singles: Counter[str] = Counter()
    for text, count in texts.items():
        for character in text:
            singles[character] += count
    longer: dict[str, int] = {}
    before: Mapping[str, int] = singles
    for length in range(2, LONGEST_PIECE + 1):
        counted: Counter[str] = Counter()
        for text, count in texts.items():
            for first in range(len(text) - length + 1):
                if text[first : first + length - 1] in before:
                    counted[text[first : first + length]] += count
        before = {piece: count for piece, count in counted.items() if count > 1}
        longer.update(before)
    best = sorted(longer, key=lambda piece: (-longer[piece] * len(piece), piece))[: SEEDS * size]
    pieces = sorted([*singles, *best])
    return pieces, np.array([singles.get(piece) or longer[piece] for piece in pieces], dtype=np.float64)


class Splits:
    """Where pieces stand in texts: text rows[i] has piece pieces[i] from starts[i] to ends[i].

    Without `whole`, a piece that is all of the text is left out.
    """

    def __init__(self, texts: Sequence[str], pieces: Sequence[str], *, whole: bool) -> None:
        known = {piece: place for place, piece in enumerate(pieces)}
        found = [
            (row, first, last, piece)
            for row, text in enumerate(texts)
            for first in range(len(text))
            for last in range(first + 1, min(len(text), first + LONGEST_PIECE) + 1)
            if (piece := known.get(text[first:last])) is not None and (whole or last - first < len(text))
        ]
        self.lengths = np.array([len(text) for text in texts])
        self.num_pieces = len(pieces)
        self._set(np.array(found, dtype=np.int32).reshape(-1, 4))

    def keep(self, alive: Bool[np.ndarray, " P"]) -> None:
        """Forget the pieces that are gone."""
        self._set(self.found[alive[self.found[:, 3]]])

    def _set(self, found: Int[np.ndarray, "N 4"]) -> None:
        self.found = found[np.argsort(found[:, 2], kind="stable")]
        self.rows, self.starts, self.ends, self.pieces = (np.ascontiguousarray(column) for column in self.found.T)
        places = np.arange(int(self.lengths.max()) + 2)
        self.until = np.searchsorted(self.ends, places)
        self.by_start = np.argsort(self.starts, kind="stable")
        self.since = np.searchsorted(self.starts[self.by_start], places)

    def expected(self, chances: Float[np.ndarray, " P"], weights: Float[np.ndarray, " T"]) -> Float[np.ndarray, " P"]:
        """How often each piece is used, over all splits of all texts: the forward-backward algorithm."""
        num_texts, longest = len(self.lengths), int(self.lengths.max())
        steps = chances[self.pieces]
        before = np.zeros((longest + 1, num_texts))
        before[0] = 1.0
        for place in range(1, longest + 1):
            at = slice(self.until[place], self.until[place + 1])
            before[place] = np.bincount(self.rows[at], before[self.starts[at], self.rows[at]] * steps[at], num_texts)
        behind = (np.arange(longest + 1)[:, None] == self.lengths).astype(np.float64)
        for place in reversed(range(longest)):
            here = self.by_start[self.since[place] : self.since[place + 1]]
            rows = self.rows[here]
            behind[place] += np.bincount(rows, behind[self.ends[here], rows] * steps[here], num_texts)
        used = before[self.starts, self.rows] * steps * behind[self.ends, self.rows]
        return np.bincount(self.pieces, used * (weights / behind[0])[self.rows], self.num_pieces)

    def best(self, logs: Float[np.ndarray, " P"]) -> Float[np.ndarray, " T"]:
        """The log-probability of each text's best split: Viterbi."""
        reached = np.full((int(self.lengths.max()) + 1, len(self.lengths)), -np.inf)
        reached[0] = 0.0
        for place in range(1, len(reached)):
            at = slice(self.until[place], self.until[place + 1])
            np.maximum.at(
                reached[place], self.rows[at], reached[self.starts[at], self.rows[at]] + logs[self.pieces[at]]
            )
        return reached[self.lengths, np.arange(len(self.lengths))]
