"""N-gram model: the next word by its counts after the previous words.

    p(w | h) = share(h w) + weight(h) p(w | h'),      h the last n-1 words, h' without the first of them
    p(w | nothing) = 1 / V

Interpolated modified Kneser-Ney: Kneser and Ney 1995, https://doi.org/10.1109/ICASSP.1995.479394; Chen and Goodman
1996, https://aclanthology.org/P96-1041, and their report of 1998 (Harvard, TR-10-98), which has the modified form.
`regard.models.language_modeling.kneser_ney` has the formulas of share and weight.
There is no gradient training: `NGram.count(ids, config)` counts a text, and the tables are the model. Every line is
independent of the lines before it, and its end is predicted like a word. 1 / V is over the tokens that can occur: <pad>
and <bos> get probability `NEVER`, whose logarithm is finite.

Departs from the paper: if a text is too small to estimate the discounts of an order, they are 0.5, 1 and 1.5. The
features of the model are the contexts as float64, which represents token ids exactly.
"""

from collections.abc import Iterable
from dataclasses import dataclass, replace
from typing import cast

import numpy as np
import torch
import torch.nn.functional as F
from jaxtyping import Float, Int
from torch import Tensor, nn

from regard.contracts import BOS, EOS, PAD, ModelOutput
from regard.models.language_modeling.base import LanguageModelBase
from regard.models.language_modeling.kneser_ney import Table, count_tables

NEVER = 1e-30
"""The probability of tokens that cannot occur."""
MAX_ORDER = 1000
"""Upper bound for the order; every order is a table."""


@dataclass(frozen=True, kw_only=True)
class NGramConfig:
    """`entries` are the sizes of the tables of orders 1 to `order`; empty before counting."""

    vocab_size: int = 10_002
    order: int = 5
    entries: tuple[int, ...] = ()

    def __post_init__(self) -> None:
        if not 1 <= self.order <= MAX_ORDER:
            raise ValueError(f"order is {self.order}, expected 1 word or more, such as 5, and {MAX_ORDER:,} at most.")
        if self.vocab_size <= EOS:
            raise ValueError(
                f"vocab_size is {self.vocab_size}, expected more than {EOS}: four special tokens and the words."
            )
        if len(self.entries) not in (0, self.order):
            raise ValueError(
                f"there are {len(self.entries)} entries for order {self.order}, expected one size per table. "
                f"Leave out entries; counting sets them."
            )

    @property
    def sizes(self) -> tuple[int, ...]:
        """The size of every table."""
        return tuple(self.entries) or (0,) * self.order


class Level(nn.Module):
    """The n-grams of one order, as buffers of the model."""

    keys: Int[Tensor, " entries"]
    shares: Float[Tensor, " entries"]
    weights: Float[Tensor, " contexts"]

    def __init__(self, *, num_entries: int, num_contexts: int) -> None:
        super().__init__()
        self.register_buffer("keys", torch.zeros(num_entries, dtype=torch.int64))
        self.register_buffer("shares", torch.zeros(num_entries))
        self.register_buffer("weights", torch.ones(num_contexts))

    def fill(self, table: Table) -> None:
        """Copy a table of counts."""
        # copied into the buffers, so that their precision and device stay those of the module
        self.keys.copy_(torch.from_numpy(table.keys))
        self.shares.copy_(torch.from_numpy(table.shares))
        self.weights.copy_(torch.from_numpy(table.weights))

    def find(self, keys: Int[Tensor, " N"]) -> Int[Tensor, " N"]:
        """The indices of these keys in the table, -1 for missing keys."""
        if not len(self.keys):
            return torch.full_like(keys, -1)
        # searchsorted returns the length for a key above all others, which is no valid index
        indices = torch.searchsorted(self.keys, keys).clamp(max=len(self.keys) - 1)
        return torch.where(self.keys[indices] == keys, indices, -1)

    def backoff_weights(self, contexts: Int[Tensor, " N"]) -> Float[Tensor, " N"]:
        """The weight of the shorter context; 1 for contexts that did not occur."""
        return pick(self.weights, contexts, default=1.0)

    def shares_of(self, entries: Int[Tensor, " N"]) -> Float[Tensor, " N"]:
        """The discounted probability of each n-gram; 0 for n-grams that did not occur."""
        return pick(self.shares, entries, default=0.0)


def pick(table: Float[Tensor, " size"], entries: Int[Tensor, " N"], *, default: float) -> Float[Tensor, " N"]:
    """Entries of a table, and the default for index -1."""
    if not len(table):
        return torch.full_like(entries, default, dtype=table.dtype)
    # the clamp keeps the index valid where -1 selects the default
    return torch.where(entries < 0, default, table[entries.clamp_min(0)])


class NGramReadout(nn.Module):
    """The output layer: from contexts to log-probabilities, which are normalised logits."""

    def __init__(self, *, vocab_size: int, sizes: tuple[int, ...]) -> None:
        super().__init__()
        self.vocab_size = vocab_size
        # the contexts of order n are the n-grams of order n - 1; order 1 has one, the empty context
        contexts = (1, *sizes[:-1])
        self.levels = nn.ModuleList(
            Level(num_entries=size, num_contexts=below) for size, below in zip(sizes, contexts, strict=True)
        )

    @property
    def tables(self) -> list[Level]:
        """The tables of orders 1 to n."""
        return list(cast(Iterable[Level], self.levels))

    def forward(self, features: Float[Tensor, "*B size"]) -> Float[Tensor, "*B vocab"]:
        """Log-probabilities of all words after each context."""
        # contexts arrive as float64, exact for token ids
        contexts = features.flatten(0, -2).long()
        # `expand` has no memory of its own; the first product below allocates the tensor that is then written to
        probabilities = self._uniform().expand(len(contexts), -1)
        for level, entries in zip(self.tables, self._contexts(contexts), strict=True):
            probabilities = probabilities * level.backoff_weights(entries)[:, None]
            # a missing context (-1) gives the bounds -vocab_size and 0, hence an empty range
            # keys are sorted, so the n-grams after a context are one contiguous range
            first, past = (torch.searchsorted(level.keys, (entries + more) * self.vocab_size) for more in (0, 1))
            number = past - first
            # flat lists of (context, following n-gram) pairs
            rows = torch.arange(len(contexts), device=number.device).repeat_interleave(number)
            # with g from arange: g - (cumsum - number) is the index within a range, and first = past - number is added
            children = torch.arange(len(rows), device=number.device) + (past - number.cumsum(0))[rows]
            # the words after one context are distinct, so indexed addition has no duplicate indices
            probabilities[rows, level.keys[children] % self.vocab_size] += level.shares[children]
        # <pad> and <bos> have probability 0; its logarithm, -inf, would make label smoothing infinite
        return probabilities.clamp_min(NEVER).log().view(*features.shape[:-1], self.vocab_size)

    def loss(
        self, features: Float[Tensor, "*B size"], labels: Int[Tensor, "*B"], *, label_smoothing: float = 0.0
    ) -> Float[Tensor, ""]:
        """Cross-entropy in nats, summed over the labels that are not <pad>."""
        if label_smoothing:
            # smoothing needs the logits of all words; without it only those of the labels are computed
            logits = self(features).flatten(0, -2)
            return F.cross_entropy(
                logits, labels.flatten(), ignore_index=PAD, label_smoothing=label_smoothing, reduction="sum"
            )
        real = labels != PAD
        contexts, words = features[real].long(), labels[real].long()
        probability = self._uniform()[words]
        for level, entries in zip(self.tables, self._contexts(contexts), strict=True):
            # the n-gram of a missing context has a negative key, which is in no table
            ngrams = level.find(entries * self.vocab_size + words)
            probability = level.backoff_weights(entries) * probability + level.shares_of(ngrams)
        return -probability.clamp_min(NEVER).log().sum()

    def _uniform(self) -> Float[Tensor, " vocab"]:
        """The uniform distribution over all tokens but <pad> and <bos>."""
        probabilities = self.tables[0].shares.new_full((self.vocab_size,), 1 / (self.vocab_size - EOS))
        # <eos> is the first id that can occur: <pad> and <bos> are below it
        probabilities[:EOS] = 0.0
        return probabilities

    def _contexts(self, contexts: Int[Tensor, "N size"]) -> list[Int[Tensor, " N"]]:
        """The indices of the last 0, 1, .. words of each context in the tables, -1 for n-grams that did not occur."""
        levels, entries = self.tables, []
        for length in range(len(levels)):
            # from order 1 up: the index of w1, then of w1 w2, and so on
            # order 0 has one entry, the empty context, at index 0
            entry = torch.zeros(len(contexts), dtype=torch.int64, device=contexts.device)
            for level, column in zip(levels, range(contexts.shape[1] - length, contexts.shape[1]), strict=False):
                # -1 x vocab_size + word is negative, so a missing prefix stays missing
                entry = level.find(entry * self.vocab_size + contexts[:, column])
            entries.append(entry)
        return entries


class NGram(LanguageModelBase):
    """Tables of n-grams; with empty tables all words are equally likely."""

    readout: NGramReadout

    def __init__(self, config: NGramConfig) -> None:
        super().__init__()
        self.config = config
        self.readout = NGramReadout(vocab_size=config.vocab_size, sizes=config.sizes)

    @classmethod
    def count(cls, ids: Int[Tensor, " T"] | np.ndarray, config: NGramConfig) -> "NGram":
        """Count a text: one stream of token ids whose lines end with <eos>."""
        array = ids.cpu().numpy() if isinstance(ids, Tensor) else ids
        tables = count_tables(array, order=config.order, vocab_size=config.vocab_size)
        model = cls(replace(config, entries=tuple(len(table.keys) for table in tables)))
        for level, table in zip(model.readout.tables, tables, strict=True):
            level.fill(table)
        return model

    def start(self, batch_size: int) -> Int[Tensor, "B size"]:
        """The last n-1 tokens; <bos> where the line has fewer."""
        device = self.readout.tables[0].keys.device
        return torch.full((batch_size, self.config.order - 1), BOS, device=device)

    def features(self, tokens: Int[Tensor, "B T"], state: Int[Tensor, "B size"]) -> ModelOutput:
        """The context after every token; it never crosses <eos>."""
        size, length = state.shape[1], tokens.shape[1]
        words = torch.cat([state, tokens.to(state.dtype)], dim=1)
        positions = torch.arange(size + length, device=words.device)
        # for every position, the last line end up to it
        ends = torch.where((words == EOS) | (words == BOS), positions, -1).cummax(dim=1).values
        # the context after token t is elements t+1 .. t+size of the state and the tokens together
        window = torch.arange(1, length + 1, device=words.device)[:, None] + positions[:size]
        # (B, T, 1) broadcast over the window: words up to the last line end are replaced by <bos>
        contexts = torch.where(window > ends[:, size:, None], words[:, window], BOS)
        # the context after the last token, or the old state if there are no tokens
        state = torch.cat([state[:, None], contexts], dim=1)[:, -1]
        # float64 holds token ids exactly, and features must be floating point
        return ModelOutput(features=contexts.double(), state=state)
