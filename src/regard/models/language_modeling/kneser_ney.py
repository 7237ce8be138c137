"""Counting and discounting n-grams: the tables of interpolated modified Kneser-Ney.

    p(w | h) = share(h w) + weight(h) p(w | h'),         h' = h without its first word
    share(h w) = (c(h w) - D(c(h w))) / c(h .),          weight(h) = sum_w D(c(h w)) / c(h .)
    D_i = i - (i + 1) Y n_{i+1} / n_i,  i = 1, 2, 3+,    Y = n_1 / (n_1 + 2 n_2)

n_i is the number of n-grams of this order with count i. At the highest order, c is the number of occurrences in the
text; at lower orders it is the number of distinct words before the n-gram, except for n-grams at the beginning of a
line, which no word precedes: their c is the number of occurrences.

Kneser and Ney 1995, https://doi.org/10.1109/ICASSP.1995.479394; Chen and Goodman 1998, Harvard, TR-10-98, as in 1996,
https://aclanthology.org/P96-1041, with three discounts.
"""

from dataclasses import dataclass

import numpy as np
from jaxtyping import Float64, Int64

from regard.contracts import BOS, EOS, PAD

FALLBACK = np.array([0.0, 0.5, 1.0, 1.5])
"""Discounts of counts 0, 1, 2, 3+ if a text is too small to estimate them, as in KenLM's discount_fallback."""


@dataclass(frozen=True, kw_only=True)
class Table:
    """All n-grams of one order.

    The key of an n-gram is the index of its first n-1 words in the table of order n-1, times the vocabulary size, plus
    its last word. Keys are sorted, so that the words after one context are contiguous. `weights` has an element for
    each entry of the table of order n-1.
    """

    keys: Int64[np.ndarray, " entries"]
    shares: Float64[np.ndarray, " entries"]
    weights: Float64[np.ndarray, " contexts"]


@dataclass(frozen=True, kw_only=True)
class NGramCounts:
    """The n-grams of one order in the text.

    `at` is the index of the n-gram that ends at each position, -1 if it would cross the beginning of its line. For each
    n-gram, `times` is its count, `first` the position of its first end, `opens` whether it begins a line.
    """

    keys: Int64[np.ndarray, " entries"]
    at: Int64[np.ndarray, " places"]
    times: Int64[np.ndarray, " entries"]
    first: Int64[np.ndarray, " entries"]
    opens: np.ndarray


def count_tables(ids: np.ndarray, *, order: int, vocab_size: int) -> list[Table]:
    """The tables of orders 1 to `order` from a stream of lines, each ended by <eos>."""
    check_stream(ids, vocab_size)
    words, places = lay_out_lines(ids.astype(np.int64))
    orders: list[NGramCounts] = []
    # order 0 has one entry, the empty n-gram
    below = np.zeros(len(words), dtype=np.int64)
    for number in range(order):
        orders.append(find_ngrams(words, places, below, number=number, vocab_size=vocab_size))
        # the n-gram before a position ends one position earlier
        # -1: no n-gram ends before the first position
        below = np.concatenate([[-1], orders[-1].at[:-1]])
    tables = []
    for number, ngrams in enumerate(orders):
        counts = ngrams.times
        if number + 1 < order:
            # each distinct preceding word makes one entry of the next order
            # `first` is one occurrence of each distinct longer n-gram; its last n words are an n-gram of this order
            before = np.bincount(ngrams.at[orders[number + 1].first], minlength=len(counts))
            counts = np.where(ngrams.opens, ngrams.times, before)
        if number == 0:
            # <bos> is a context but is never predicted
            counts = np.where(ngrams.keys == BOS, 0, counts)
        # a key is context x vocab_size + word, so the division gives the context
        contexts = len(orders[number - 1].keys) if number else 1
        tables.append(discount(ngrams.keys, counts, ngrams.keys // vocab_size, contexts))
    return tables


def check_stream(ids: np.ndarray, vocab_size: int) -> None:
    """Reject streams that cannot be counted."""
    if ids.ndim != 1 or not np.issubdtype(ids.dtype, np.integer):
        raise ValueError(
            f"ids have shape {ids.shape} and type {ids.dtype}, expected one dimension of integers. "
            f"Join the lines to one stream, each ended by <eos> ({EOS})."
        )
    if not len(ids):
        raise ValueError("there are 0 tokens to count. Give a text with at least one line.")
    if ids.min() < 0 or ids.max() >= vocab_size:
        raise ValueError(
            f"ids go from {ids.min()} to {ids.max()}, but vocab_size is {vocab_size}. "
            f"Give the size of the vocabulary, with its four special tokens."
        )
    if np.isin(ids, (PAD, BOS)).any():
        raise ValueError(
            f"the stream holds <pad> ({PAD}) or <bos> ({BOS}), which are not part of a text. Leave them out: a line "
            f"begins after the <eos> ({EOS}) of the line before."
        )


def lay_out_lines(ids: Int64[np.ndarray, " T"]) -> tuple[Int64[np.ndarray, " places"], Int64[np.ndarray, " places"]]:
    """The stream with <bos> before every line, and each token's position in its line, with <bos> at 0."""
    # the last <eos> ends the stream and begins no line, so it is not among the starts
    begins = np.concatenate([[0], np.flatnonzero(ids[:-1] == EOS) + 1])
    # `begins` are positions in `ids`; all insertions are relative to these, not to each other
    words = np.insert(ids, begins, BOS)
    # each <bos> moves the lines after it by one position
    starts = begins + np.arange(len(begins))
    lengths = np.diff(np.append(starts, len(words)))
    return words, np.arange(len(words)) - np.repeat(starts, lengths)


def find_ngrams(
    words: Int64[np.ndarray, " places"],
    places: Int64[np.ndarray, " places"],
    below: Int64[np.ndarray, " places"],
    *,
    number: int,
    vocab_size: int,
) -> NGramCounts:
    """The n-grams of order `number` + 1; `below` is the index of the n-gram of order `number` before each position."""
    # n-grams never cross the beginning of a line
    ends = np.flatnonzero(places >= number)
    # unique keys of int64: a context index times the vocabulary size stays far below 2^63
    keys, first, inverse, times = np.unique(
        below[ends] * vocab_size + words[ends], return_index=True, return_inverse=True, return_counts=True
    )
    at = np.full(len(words), -1, dtype=np.int64)
    at[ends] = inverse
    # an n-gram that ends at position `number` of its line starts with <bos>
    return NGramCounts(keys=keys, at=at, times=times, first=ends[first], opens=places[ends[first]] == number)


def discount(
    keys: Int64[np.ndarray, " entries"],
    counts: Int64[np.ndarray, " entries"],
    contexts: Int64[np.ndarray, " entries"],
    num_contexts: int,
) -> Table:
    """Subtract the discounts from the counts; their sum per context is the weight of the shorter context."""
    # counts of 3 and more share one discount
    discounted = discounts(counts)[np.minimum(counts, 3)]
    totals = np.bincount(contexts, weights=counts, minlength=num_contexts)
    discounted_totals = np.bincount(contexts, weights=discounted, minlength=num_contexts)
    # a context without continuations gives all probability to the shorter context
    weights = np.divide(discounted_totals, totals, out=np.ones(num_contexts), where=totals > 0)
    # a word without occurrences has share 0; the maximum only avoids 0 / 0
    shares = (counts - discounted) / np.maximum(totals[contexts], 1)
    return Table(keys=keys, shares=shares, weights=weights)


def discounts(counts: Int64[np.ndarray, " entries"]) -> Float64[np.ndarray, "4"]:
    """D for counts 0, 1, 2, 3+; the fallback if a count of counts is 0 or a D is negative."""
    # n[i] is the number of n-grams with count i, for i up to 4
    n = np.bincount(np.minimum(counts, 5), minlength=6).astype(np.float64)
    # D_1, D_2 and D_3 divide by n_1, n_2 and n_3
    if not n[1:4].all():
        return FALLBACK
    share = n[1] / (n[1] + 2 * n[2])
    estimates = np.array([0.0, *(i - (i + 1) * share * n[i + 1] / n[i] for i in (1, 2, 3))])
    return estimates if (estimates >= 0).all() else FALLBACK
