"""N-gram: the next word by how often it followed the last few.

    p(w | h) = share(h w) + weight(h) p(w | h'),      h the last n-1 words, h' without the first of them
    p(w | nothing) = 1 / V

Interpolated modified Kneser-Ney: Kneser and Ney 1995, https://doi.org/10.1109/ICASSP.1995.479394; Chen and Goodman
1996, https://aclanthology.org/P96-1041, and their report of 1998 (Harvard, TR-10-98), which has the modified form.
`regard.models.language_modeling.kneser_ney` has the formulas of share and weight.
Nothing is trained: `NGram.count(ids, config)` counts a text, and the tables are the model. Every line is read from its
own beginning, and its end is predicted like a word. 1 / V is over what can be said: <pad> and <bos> get probability
`NEVER`, whose logarithm is finite.

Departs from the paper: where a text is too small to tell an order's discounts, they are 0.5, 1 and 1.5. The model's
features are the contexts, as numbers of type float64, which hold token ids exactly.
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
from regard.models.language_modeling.base import Reader
from regard.models.language_modeling.kneser_ney import Table, count_tables

NEVER = 1e-30
"""The probability of what is never said."""
LONGEST = 1000
"""Words of an n-gram; every order is a table."""


@dataclass(frozen=True, kw_only=True)
class NGramConfig:
    """`entries` are the sizes of the tables, orders 1 to `order`, as counting found them; none before it."""

    vocab_size: int = 10_002
    order: int = 5
    entries: tuple[int, ...] = ()

    def __post_init__(self) -> None:
        if not 1 <= self.order <= LONGEST:
            raise ValueError(f"order is {self.order}, expected 1 word or more, such as 5, and {LONGEST:,} at most.")
        if self.vocab_size <= EOS:
            raise ValueError(f"vocab_size is {self.vocab_size}, expected more than {EOS}: the four marks and words.")
        if len(self.entries) not in (0, self.order):
            raise ValueError(
                f"there are {len(self.entries)} entries for order {self.order}, expected one size a table. "
                f"Leave entries out; counting finds them."
            )

    @property
    def sizes(self) -> tuple[int, ...]:
        """Entries of every table."""
        return tuple(self.entries) or (0,) * self.order


class Level(nn.Module):
    """The n-grams of one order, as tensors that are saved and moved with the model."""

    keys: Int[Tensor, " entries"]
    shares: Float[Tensor, " entries"]
    weights: Float[Tensor, " contexts"]

    def __init__(self, *, num_entries: int, num_contexts: int) -> None:
        super().__init__()
        self.register_buffer("keys", torch.zeros(num_entries, dtype=torch.int64))
        self.register_buffer("shares", torch.zeros(num_entries))
        self.register_buffer("weights", torch.ones(num_contexts))

    def fill(self, table: Table) -> None:
        """Take over what was counted."""
        self.keys.copy_(torch.from_numpy(table.keys))
        self.shares.copy_(torch.from_numpy(table.shares))
        self.weights.copy_(torch.from_numpy(table.weights))

    def find(self, keys: Int[Tensor, " N"]) -> Int[Tensor, " N"]:
        """The entries with these keys, -1 where there is none."""
        if not len(self.keys):
            return torch.full_like(keys, -1)
        places = torch.searchsorted(self.keys, keys).clamp(max=len(self.keys) - 1)
        return torch.where(self.keys[places] == keys, places, -1)

    def weights_for_queries(self, contexts: Int[Tensor, " N"]) -> Float[Tensor, " N"]:
        """How much is left to the shorter context: all, after one never seen."""
        return pick(self.weights, contexts, default=1.0)

    def shares_of(self, entries: Int[Tensor, " N"]) -> Float[Tensor, " N"]:
        """What each n-gram has by itself: nothing, if never seen."""
        return pick(self.shares, entries, default=0.0)


def pick(table: Float[Tensor, " size"], entries: Int[Tensor, " N"], *, default: float) -> Float[Tensor, " N"]:
    """Lines of a table, and the default for entry -1."""
    if not len(table):
        return torch.full_like(entries, default, dtype=table.dtype)
    return torch.where(entries < 0, default, table[entries.clamp_min(0)])


class NGramReadout(nn.Module):
    """Contexts to log-probabilities, which are logits that sum to 1 already."""

    def __init__(self, *, vocab_size: int, sizes: tuple[int, ...]) -> None:
        super().__init__()
        self.vocab_size = vocab_size
        contexts = (1, *sizes[:-1])
        self.levels = nn.ModuleList(
            Level(num_entries=size, num_contexts=below) for size, below in zip(sizes, contexts, strict=True)
        )

    @property
    def tables(self) -> list[Level]:
        """The levels, orders 1 and up."""
        return list(cast(Iterable[Level], self.levels))

    def forward(self, features: Float[Tensor, "*B size"]) -> Float[Tensor, "*B vocab"]:
        """Log-probabilities of all words after each context."""
        contexts = features.flatten(0, -2).long()
        spread = self._uniform().expand(len(contexts), -1)
        for level, entries in zip(self.tables, self._contexts(contexts), strict=True):
            spread = spread * level.weights_for_queries(entries)[:, None]
            first, past = (torch.searchsorted(level.keys, (entries + more) * self.vocab_size) for more in (0, 1))
            number = past - first
            rows = torch.arange(len(contexts), device=number.device).repeat_interleave(number)
            children = torch.arange(len(rows), device=number.device) + (past - number.cumsum(0))[rows]
            # no word twice in a row
            spread[rows, level.keys[children] % self.vocab_size] += level.shares[children]
        return spread.clamp_min(NEVER).log().view(*features.shape[:-1], self.vocab_size)

    def loss(
        self, features: Float[Tensor, "*B size"], labels: Int[Tensor, "*B"], *, label_smoothing: float = 0.0
    ) -> Float[Tensor, ""]:
        """Cross-entropy in nats, summed over the labels that are not <pad>; smoothed, it needs all words' logits."""
        if label_smoothing:
            logits = self(features).flatten(0, -2)
            return F.cross_entropy(
                logits, labels.flatten(), ignore_index=PAD, label_smoothing=label_smoothing, reduction="sum"
            )
        real = labels != PAD
        contexts, words = features[real].long(), labels[real].long()
        chance = self._uniform()[words]
        for level, entries in zip(self.tables, self._contexts(contexts), strict=True):
            found = level.find(entries * self.vocab_size + words)
            chance = level.weights_for_queries(entries) * chance + level.shares_of(found)
        return -chance.clamp_min(NEVER).log().sum()

    def _uniform(self) -> Float[Tensor, " vocab"]:
        """Equal chances for all that can be said; the first two marks cannot."""
        spread = self.tables[0].shares.new_full((self.vocab_size,), 1 / (self.vocab_size - EOS))
        spread[:EOS] = 0.0
        return spread

    def _contexts(self, contexts: Int[Tensor, "N size"]) -> list[Int[Tensor, " N"]]:
        """The entries of the last 0, 1, .. words of each context, -1 where the text has no such n-gram."""
        levels, entries = self.tables, []
        for length in range(len(levels)):
            entry = torch.zeros(len(contexts), dtype=torch.int64, device=contexts.device)
            for level, place in zip(levels, range(contexts.shape[1] - length, contexts.shape[1]), strict=False):
                entry = level.find(entry * self.vocab_size + contexts[:, place])
            entries.append(entry)
        return entries


class NGram(Reader):
    """Tables of n-grams; without any (nothing counted), all words are equally likely."""

    readout: NGramReadout

    def __init__(self, config: NGramConfig) -> None:
        super().__init__()
        self.config = config
        self.readout = NGramReadout(vocab_size=config.vocab_size, sizes=config.sizes)

    @classmethod
    def count(cls, ids: Int[Tensor, " T"] | np.ndarray, config: NGramConfig) -> "NGram":
        """A model of this text: one stream of token ids whose lines end with <eos>."""
        numbers = ids.cpu().numpy() if isinstance(ids, Tensor) else ids
        tables = count_tables(numbers, order=config.order, vocab_size=config.vocab_size)
        model = cls(replace(config, entries=tuple(len(table.keys) for table in tables)))
        for level, table in zip(model.readout.tables, tables, strict=True):
            level.fill(table)
        return model

    def start(self, num_rows: int) -> Int[Tensor, "B size"]:
        """The state is the last n-1 tokens, <bos> where the line has fewer: at first, all."""
        device = self.readout.tables[0].keys.device
        return torch.full((num_rows, self.config.order - 1), BOS, device=device)

    def read(self, tokens: Int[Tensor, "B T"], state: Int[Tensor, "B size"]) -> ModelOutput:
        """The context behind every token: after <eos> a line begins, and knows nothing of the one before."""
        size, length = state.shape[1], tokens.shape[1]
        words = torch.cat([state, tokens.to(state.dtype)], dim=1)
        places = torch.arange(size + length, device=words.device)
        ends = torch.where((words == EOS) | (words == BOS), places, -1).cummax(dim=1).values
        # the context behind token t is words t+1 .. t+size of the state and the tokens together
        window = torch.arange(1, length + 1, device=words.device)[:, None] + places[:size]
        contexts = torch.where(window > ends[:, size:, None], words[:, window], BOS)
        state = torch.cat([state[:, None], contexts], dim=1)[:, -1]
        return ModelOutput(features=contexts.double(), state=state)
