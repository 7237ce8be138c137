"""Aligners without a network: what attention must beat.

IBM Model 1 says that each target word f was written by one source word e, or by none (the empty word NULL):

    p(f_1..f_T | e_1..e_S) = prod_j  1 / (S + 1)  sum_i t(f_j | e_i),   i = 0..S, e_0 = NULL

t is found by expectation maximisation from a uniform start, and the likelihood rises with every iteration.
Brown et al. 1993. https://aclanthology.org/J93-2003/

Several NULL words make "none" more likely: Moore 2004. https://aclanthology.org/P04-1066/
"""

from collections.abc import Iterable, Sequence
from dataclasses import dataclass

import numpy as np
import numpy.typing as npt

from regard.metrics.alignment import Link

Words = Sequence[str]
Integers = npt.NDArray[np.int64]
Floats = npt.NDArray[np.float64]
NULL = 0


@dataclass(frozen=True)
class Diagonal:
    """Target word j looks at source word round(j S / T), whatever the words: the least an aligner must beat."""

    def align(self, source: Words, target: Words) -> list[Link]:
        """One link a target word, none where the source is empty."""
        num_source, num_target = len(source), len(target)
        if not num_source:
            return []
        places = ((2 * j * num_source + num_target) // (2 * num_target) for j in range(num_target))
        return [(min(place, num_source - 1), j) for j, place in enumerate(places)]


@dataclass(frozen=True, kw_only=True, eq=False)
class IBMModel1:
    """A fitted model: t(target word | source word) for every pair seen together; unseen pairs have 0.

    `log_likelihoods` holds the corpus's before the first iteration and after each.
    """

    source_ids: dict[str, int]
    target_ids: dict[str, int]
    pairs: Integers
    probabilities: Floats
    log_likelihoods: tuple[float, ...]

    @classmethod
    def fit(cls, pairs: Iterable[tuple[Words, Words]], *, iterations: int = 5, null_words: int = 1) -> "IBMModel1":
        """From pairs of word lists, (source, target). Pairs with an empty target say nothing and change nothing.

        Memory peaks near 52 bytes for each pair of a target word and a source word of its sentence.
        """
        if iterations < 1 or null_words < 0:
            raise ValueError(f"iterations={iterations}, null_words={null_words}: expected 1 or more, and 0 or more.")
        corpus = _Corpus.of(pairs, null_words)
        table, cells = np.unique(corpus.cells, return_inverse=True)
        sources = table // len(corpus.target_ids)
        probabilities = np.full(len(table), 1 / len(corpus.target_ids))
        likelihoods = []
        for _ in range(iterations):
            weights = probabilities[cells]
            totals = np.add.reduceat(weights, corpus.starts)
            likelihoods.append(corpus.log_likelihood(totals))
            weights /= np.repeat(totals, corpus.widths)
            counts = np.bincount(cells, weights, minlength=len(table))
            probabilities = counts / np.bincount(sources, counts)[sources]
        likelihoods.append(corpus.log_likelihood(np.add.reduceat(probabilities[cells], corpus.starts)))
        return cls(
            source_ids=corpus.source_ids,
            target_ids=corpus.target_ids,
            pairs=table,
            probabilities=probabilities,
            log_likelihoods=tuple(likelihoods),
        )

    def probability(self, target: str, source: str | None) -> float:
        """t(target | source); the source None is the NULL word."""
        place = NULL if source is None else self.source_ids.get(source, -1)
        return float(self._lookup(np.array([[place]]), np.array([self.target_ids.get(target, -1)]))[0, 0])

    def align(self, source: Words, target: Words) -> list[Link]:
        """The likeliest source word of each target word, the first of equals; none where NULL is likelier or as likely.

        A word the model never saw, or only with other words, is linked to none.
        """
        if not source or not target:
            return []
        sources = np.array([NULL, *(self.source_ids.get(word, -1) for word in source)])
        targets = np.array([self.target_ids.get(word, -1) for word in target])
        table = self._lookup(sources[None, :], targets)
        # column 0 is NULL: with none in the model it has probability 0, and so it takes what nothing explains
        return [(int(best) - 1, j) for j, best in enumerate(table.argmax(axis=1)) if best > 0]

    def _lookup(self, sources: Integers, targets: Integers) -> Floats:
        """t of every target (rows) given every source (columns)."""
        wanted = sources * len(self.target_ids) + targets[:, None]
        places = np.minimum(np.searchsorted(self.pairs, wanted), len(self.pairs) - 1)
        known = (self.pairs[places] == wanted) & (sources >= 0) & (targets[:, None] >= 0)
        return np.where(known, self.probabilities[places], 0.0)


@dataclass(frozen=True, kw_only=True, eq=False)
class _Corpus:
    """All pairs laid end to end: target word after target word, each with every word of its source sentence.

    A cell is the pair's number, source id x target words + target id; a target word's cells begin at its start and are
    as many as its width.
    """

    source_ids: dict[str, int]
    target_ids: dict[str, int]
    cells: Integers
    starts: Integers
    widths: Integers

    @classmethod
    def of(cls, pairs: Iterable[tuple[Words, Words]], null_words: int) -> "_Corpus":
        source_ids: dict[str, int] = {}
        target_ids: dict[str, int] = {}
        sources: list[int] = []
        targets: list[int] = []
        sizes = []
        for source, target in pairs:
            if not target or not (source or null_words):
                continue
            sources += [NULL] * null_words
            sources += [source_ids.setdefault(word, len(source_ids) + 1) for word in source]
            targets += [target_ids.setdefault(word, len(target_ids)) for word in target]
            sizes.append((len(source) + null_words, len(target)))
        if not sizes:
            raise ValueError("there is no pair with words on both sides. Give at least one to fit the aligner.")
        num_source, num_target = np.array(sizes).T
        widths = np.repeat(num_source, num_target)
        starts = np.cumsum(widths) - widths
        sentence_starts = np.repeat(np.cumsum(num_source) - num_source, num_target)
        cells = np.array(sources)[np.arange(widths.sum()) + np.repeat(sentence_starts - starts, widths)]
        cells = cells * len(target_ids) + np.repeat(np.array(targets), widths)
        return cls(source_ids=source_ids, target_ids=target_ids, cells=cells, starts=starts, widths=widths)

    def log_likelihood(self, totals: Floats) -> float:
        """log p(targets | sources), from the sum of t over each target word's cells."""
        return float(np.log(totals).sum() - np.log(self.widths).sum())
