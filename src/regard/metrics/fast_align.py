"""The model of fast_align: IBM Model 2 with one parameter for all positions.

A target word f_j has no source word with probability p_0; otherwise it prefers the source words near the diagonal:

    p(f_1..f_T | e_1..e_S) = prod_j [ p_0 t(f_j | NULL) + (1 - p_0) sum_i d(i | j) t(f_j | e_i) ]

    d(i | j) = exp(-lambda |i / S - j / T|) / Z_j,   i = 1..S,  j = 1..T

t and lambda are estimated by expectation maximisation. The expected log-likelihood is concave in lambda, and its
gradient is the difference of two mean distances from the diagonal, under d and under the posterior. A gradient step of
length 4 cannot lower it, because the distances lie between 0 and 1 and so have a variance of 1 / 4 at most. So the
likelihood rises with every iteration.

With a Dirichlet prior on t, variational Bayes replaces the maximum: t = exp(psi(c + alpha)) / exp(psi(sum (c + alpha)))
for expected counts c, which takes probability from pairs of rare words. It raises a lower bound, not the likelihood.

Dyer, Chahuneau and Smith 2013. https://aclanthology.org/N13-1073

Departs from the paper: Z_j and the mean distances are sums over the source words, once for each distinct (j, T, S), in
place of closed forms; the posterior probability of NULL is left out of the gradient on both sides.
"""

from collections.abc import Iterable
from dataclasses import dataclass, replace

import numpy as np
import torch

from regard.metrics.alignment import Link
from regard.metrics.word_pairs import Floats, Integers, TranslationTable, WordPairs, Words

STEP, NUM_STEPS = 4.0, 8
"""Length and number of the gradient steps for lambda in one iteration; 8 as in the paper."""
MAX_TENSION = 50.0
"""Words a fiftieth of the sentence further away have 1 / e of the probability; beyond, exp would underflow."""
UNSEEN = 1e-9
"""t of a pair of words that is not in the table, so that such words are linked along the diagonal."""


@dataclass(frozen=True, kw_only=True, eq=False)
class FastAlign:
    """A fitted model: `table` has t, `tension` is lambda, and `null_prior` p_0.

    `log_likelihoods` are those of the corpus, before the first iteration and after each.
    """

    table: TranslationTable
    tension: float
    null_prior: float
    log_likelihoods: tuple[float, ...]

    @classmethod
    def fit(
        cls,
        pairs: Iterable[tuple[Words, Words]],
        *,
        iterations: int = 5,
        null_prior: float = 0.08,
        tension: float = 4.0,
        dirichlet: float | None = None,
    ) -> "FastAlign":
        """Fit to pairs of word lists, (source, target); pairs with an empty side are skipped.

        `tension` is the start of lambda, `dirichlet` the alpha of variational Bayes, such as 0.01. Memory peaks near 60
        bytes for each pair of a target word and a source word of its sentence.
        """
        _check(iterations, null_prior, tension, dirichlet)
        corpus = WordPairs.of(((source, target) for source, target in pairs if source), null_words=1)
        table, cells = corpus.table()
        sources, probabilities = table.sources, table.probabilities
        diagonal = _Diagonal.of(corpus)
        likelihoods = []
        for _ in range(iterations):
            # expectation: the posterior probability of each source word, and of NULL, for each target word
            weights = probabilities[cells]
            weights *= diagonal.prior(tension, null_prior)[diagonal.indices]
            totals = np.add.reduceat(weights, corpus.starts)
            likelihoods.append(float(np.log(totals).sum()))
            # in place: `weights` is the largest array of the corpus
            weights /= np.repeat(totals, corpus.widths)
            counts = np.bincount(cells, weights, minlength=len(probabilities))
            probabilities = _maximise(counts, sources, dirichlet)
            tension = diagonal.climb(tension, np.bincount(diagonal.indices, weights)[1:])
        # the last value needs the sums of the final parameters, which no iteration has computed
        weights = probabilities[cells] * diagonal.prior(tension, null_prior)[diagonal.indices]
        likelihoods.append(float(np.log(np.add.reduceat(weights, corpus.starts)).sum()))
        return cls(
            table=replace(table, probabilities=probabilities),
            tension=tension,
            null_prior=null_prior,
            log_likelihoods=tuple(likelihoods),
        )

    def probability(self, target: str, source: str | None) -> float:
        """t(target | source); the source None is the NULL word."""
        return self.table.probability(target, source)

    def align(self, source: Words, target: Words) -> list[Link]:
        """The likeliest source word of each target word, the first of equals; none where NULL is at least as likely.

        Pairs of words that are not in the table have the same small t, so there the diagonal decides.
        """
        if not source or not target:
            return []
        rows = np.arange(1, len(target) + 1)[:, None] / len(target)
        columns = np.arange(1, len(source) + 1)[None, :] / len(source)
        closeness = np.exp(-self.tension * np.abs(columns - rows))
        table = np.maximum(self.table.of_sentence(source, target), UNSEEN)
        table[:, 0] *= self.null_prior
        table[:, 1:] *= (1 - self.null_prior) * closeness / closeness.sum(axis=1, keepdims=True)
        # column 0 is NULL, and argmax returns the first of equals
        return [(int(best) - 1, j) for j, best in enumerate(table.argmax(axis=1)) if best > 0]


def _check(iterations: int, null_prior: float, tension: float, dirichlet: float | None) -> None:
    if iterations < 1:
        raise ValueError(f"iterations is {iterations}. Give 1 or more, such as 5.")
    if not 0 < null_prior < 1:
        raise ValueError(f"null_prior is {null_prior}, but it is a probability between 0 and 1, such as 0.08.")
    if not 0 <= tension <= MAX_TENSION:
        raise ValueError(f"tension is {tension}. Give 0 (no preference for the diagonal) to {MAX_TENSION:g}.")
    if dirichlet is not None and not dirichlet > 0:
        raise ValueError(f"dirichlet is {dirichlet}. Give a positive number such as 0.01, or None for the maximum.")


def _maximise(counts: Floats, sources: Integers, dirichlet: float | None) -> Floats:
    """t from expected counts, normalised over the target words of each source word."""
    if dirichlet is None:
        # the posterior of a target word may underflow to 0 for a source word, but not for all of them
        return counts / np.maximum(np.bincount(sources, counts), np.finfo(np.float64).tiny)[sources]
    pseudo = counts + dirichlet
    # numpy has no digamma
    logs = torch.from_numpy(pseudo).digamma().numpy()
    total_logs = torch.from_numpy(np.bincount(sources, pseudo)).clamp(min=dirichlet).digamma().numpy()
    return np.exp(logs - total_logs[sources])


@dataclass(frozen=True, kw_only=True, eq=False)
class _Diagonal:
    """Distances |i / S - j / T| from the diagonal, once for every distinct (j, T, S), end to end.

    There are far fewer of them than cells in the corpus. The cells of one (j, T, S) begin at `starts`; `indices` gives
    for each cell of the corpus its index among the distances, counted from 1, and 0 for NULL.
    """

    distances: Floats
    starts: Integers
    widths: Integers
    indices: Integers

    @classmethod
    def of(cls, corpus: WordPairs) -> "_Diagonal":
        num_source, num_target = corpus.sizes[:, 0] - 1, corpus.sizes[:, 1]
        # one row (j, T, S) per target word
        ends = np.cumsum(num_target)
        positions = np.arange(ends[-1]) - np.repeat(ends - num_target, num_target) + 1
        keys = np.stack([positions, np.repeat(num_target, num_target), np.repeat(num_source, num_target)], axis=1)
        shapes, shape_of_word = np.unique(keys, axis=0, return_inverse=True)
        shape_of_word = shape_of_word.reshape(-1)
        widths = shapes[:, 2]
        starts = np.cumsum(widths) - widths
        columns = np.arange(widths.sum()) - np.repeat(starts, widths) + 1
        rows = np.repeat(shapes[:, 0] / shapes[:, 1], widths)
        # cell 0 of a target word is NULL, cell i its source word i
        indices = np.arange(corpus.widths.sum()) - np.repeat(corpus.starts - starts[shape_of_word], corpus.widths)
        indices[corpus.starts] = 0
        return cls(
            distances=np.abs(columns / np.repeat(widths, widths) - rows),
            starts=starts,
            widths=widths,
            indices=indices,
        )

    def closeness(self, tension: float) -> Floats:
        """d(i | j)."""
        weights = np.exp(-tension * self.distances)
        return weights / np.repeat(np.add.reduceat(weights, self.starts), self.widths)

    def prior(self, tension: float, null_prior: float) -> Floats:
        """The prior of NULL, then of every source position."""
        return np.concatenate([[null_prior], (1 - null_prior) * self.closeness(tension)])

    def climb(self, tension: float, counts: Floats) -> float:
        """Gradient steps for lambda, given the expected count of every distance."""
        # the expected log-likelihood is -lambda (counts . distances) - sum masses log Z
        masses, total = np.add.reduceat(counts, self.starts), counts.sum()
        observed = counts @ self.distances
        for _ in range(NUM_STEPS):
            expected = masses @ np.add.reduceat(self.closeness(tension) * self.distances, self.starts)
            # a step to a bound of a concave function does not lower it either
            tension = float(np.clip(tension + STEP * (expected - observed) / total, 0.0, MAX_TENSION))
        return tension
