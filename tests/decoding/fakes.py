"""Small models with the protocol: one with a table of probabilities, one with attention and a state."""

from dataclasses import dataclass

import torch
from torch import Tensor, nn

from regard.contracts import EOS, PAD, UNK, LengthLimit, Memory, ModelOutput, PaddedTokens, Step

LIMIT = LengthLimit()


class Identity:
    """Features that are logits already."""

    def __call__(self, features):
        return features

    def loss(self, features, labels, *, label_smoothing=0.0):
        return nn.functional.cross_entropy(
            features.flatten(0, -2),
            labels.flatten(),
            ignore_index=PAD,
            label_smoothing=label_smoothing,
            reduction="sum",
        )


class Markov:
    """p(y | previous y, first source token, step): logits are rows of a table [sources, vocab, vocab].

    The step shifts the rows, so that no two sequences are equally probable; its count is the state.
    """

    def __init__(self, table):
        self.table = table
        self.readout = Identity()
        self.num_steps = 0
        self.num_rows = 0

    def encode(self, source):
        return (source.ids[:, 0] % len(self.table),)

    def start(self, encoded):
        return {"places": torch.zeros_like(encoded[0])}

    def step(self, tokens, state, encoded):
        self.num_steps += 1
        self.num_rows += len(tokens)
        logits = self.logits(encoded[0], tokens, state["places"])
        return Step(logits=logits, state={"places": state["places"] + 1})

    def logits(self, first, tokens, places):
        return self.table[first, tokens] * (1 + places.double() / 10)[..., None]

    def features(self, source, target):
        places = torch.arange(target.ids.shape[1])
        return ModelOutput(features=self.logits(self.encode(source)[0][:, None], target.ids, places))

    def forward(self, source, target):
        return self.features(source, target).features


def markov(*, vocab_size, num_sources=4, seed=0, ending=0.0):
    """A random table; `ending` raises the logit of <eos>."""
    generator = torch.Generator().manual_seed(seed)
    table = torch.randn(num_sources, vocab_size, vocab_size, generator=generator, dtype=torch.float64)
    table[:, :, EOS] += ending
    return Markov(table)


@dataclass(frozen=True)
class State:
    hidden: Tensor
    length: int = 0


class Attending(nn.Module):
    """A GRU that attends to source embeddings; dropout shows whether eval was called."""

    def __init__(self, *, vocab_size=12, size=16):
        super().__init__()
        self.source = nn.Embedding(vocab_size, size)
        self.target = nn.Embedding(vocab_size, size)
        self.cell = nn.GRUCell(2 * size, size)
        self.dropout = nn.Dropout(0.5)
        self.readout = nn.Linear(size, vocab_size)
        nn.init.normal_(self.readout.weight, std=1.0)

    def encode(self, source):
        states = self.dropout(self.source(source.ids))
        return Memory(keys=states, values=states, mask=source.mask)

    def start(self, encoded):
        mask = encoded.mask[..., None]
        return State((encoded.values * mask).sum(1) / mask.sum(1))

    def read(self, tokens, state, encoded):
        scores = 3 * torch.einsum("bd,bkd->bk", state.hidden, encoded.keys)
        weights = scores.masked_fill(~encoded.mask, float("-inf")).softmax(-1)
        context = torch.einsum("bk,bkd->bd", weights, encoded.values)
        hidden = self.cell(torch.cat([self.target(tokens), context], -1), state.hidden)
        return hidden, weights

    def step(self, tokens, state, encoded):
        hidden, weights = self.read(tokens, state, encoded)
        return Step(logits=self.readout(hidden), state=State(hidden, state.length + 1), weights=weights)

    def features(self, source, target):
        encoded = self.encode(source)
        state, features = self.start(encoded), []
        for tokens in target.ids.unbind(1):
            state = State(self.read(tokens, state, encoded)[0])
            features.append(state.hidden)
        return ModelOutput(features=torch.stack(features, 1))

    def forward(self, source, target):
        return self.readout(self.features(source, target).features)


def sources(count, *, longest=7, vocab_size=12, seed=0):
    """Random rows of various lengths, each ending with <eos>."""
    generator = torch.Generator().manual_seed(seed)
    lengths = torch.randint(0, longest, (count,), generator=generator).tolist()
    return [[*torch.randint(UNK, vocab_size, (length,), generator=generator).tolist(), EOS] for length in lengths]


def padded(rows, extra):
    """The same rows with more padding than they need."""
    batch = PaddedTokens.from_lists(rows)
    return PaddedTokens(nn.functional.pad(batch.ids, (0, extra), value=7), batch.lengths)
