import math

import pytest
import torch
from torch import nn

from regard.contracts import BOS, EOS, Batch, ModelOutput, PackedTokens, PaddedTokens, Step
from regard.layers import Readout
from regard.metrics import Perplexity
from regard.tasks.translation.evaluate import perplexity

VOCAB_SIZE = 11
TARGETS = [[4, 5, 6], [7], [8, 9, 10, 4, 5]]


class Bigram(nn.Module):
    """Each target token predicts the next one; the source is not used."""

    def __init__(self):
        super().__init__()
        self.embedding = nn.Embedding(VOCAB_SIZE, 8)
        self.dropout = nn.Dropout(0.5)
        self.readout = Readout(hidden_size=8, vocab_size=VOCAB_SIZE)

    def encode(self, source):
        return source.lengths

    def start(self, encoded):
        return torch.zeros_like(encoded)

    def step(self, tokens, state, encoded):
        return Step(logits=self.readout(self.dropout(self.embedding(tokens))), state=state + 1)

    def features(self, source, target):
        return ModelOutput(features=self.dropout(self.embedding(target.ids)))

    def forward(self, source, target):
        return self.readout(self.features(source, target).features)


def batch(targets, kind=PaddedTokens):
    labels = [[*row, EOS] for row in targets]
    return Batch(
        source=kind.from_lists([[EOS] for _ in targets]),
        target=kind.from_lists([[BOS, *row] for row in targets]),
        labels=kind.from_lists(labels).ids,
        num_tokens=sum(map(len, labels)),
    )


def by_hand(model):
    """Sum of -log p over y_1 .. y_n <eos>, a token at a time."""
    nats = 0.0
    for row in TARGETS:
        for before, token in zip([BOS, *row], [*row, EOS], strict=True):
            logits = model.readout(model.embedding.weight[before])
            nats -= logits.log_softmax(-1)[token].item()
    return nats


def test_is_the_formula():
    model = Bigram()
    result = perplexity(model, [batch(TARGETS)])
    assert result.tokens == 9 + 3
    assert result.nats == pytest.approx(by_hand(model), rel=1e-5)
    assert result.perplexity == pytest.approx(math.exp(by_hand(model) / 12), rel=1e-5)


def test_the_perplexity_of_a_uniform_model_is_the_vocabulary_size():
    model = Bigram()
    nn.init.zeros_(model.readout.weight)
    assert perplexity(model, [batch(TARGETS)]).perplexity == pytest.approx(VOCAB_SIZE, rel=1e-5)


def test_batching_padding_and_packing_change_nothing():
    model = Bigram()
    whole = perplexity(model, [batch(TARGETS)])
    alone = perplexity(model, (batch([row]) for row in TARGETS))
    packed = perplexity(model, [batch(TARGETS, PackedTokens)])
    assert alone.tokens == packed.tokens == whole.tokens
    assert alone.nats == pytest.approx(whole.nats, rel=1e-6)
    assert packed.nats == pytest.approx(whole.nats, rel=1e-6)


def test_the_mode_of_every_module_is_restored():
    model = Bigram().train()
    model.embedding.eval()
    perplexity(model, [batch(TARGETS)])
    assert model.training and model.dropout.training and not model.embedding.training

    def broken():
        yield batch(TARGETS)
        raise OSError("gone")

    with pytest.raises(OSError, match="gone"):
        perplexity(model, broken())
    assert model.dropout.training


def test_the_model_can_be_trained_afterwards():
    model = Bigram()
    given = batch(TARGETS)
    perplexity(model, [given])
    model.readout.loss(model.features(given.source, given.target).features, given.labels).backward()
    assert all(torch.isfinite(parameter.grad).all() for parameter in model.parameters())


def test_extremes():
    with pytest.raises(ValueError, match="over 0 tokens is undefined"):
        perplexity(Bigram(), [])
    assert Perplexity.of(nats=1e6, tokens=1).perplexity == math.inf
    assert math.isnan(Perplexity.of(nats=math.nan, tokens=1).perplexity)


@pytest.mark.cuda
def test_batches_are_moved_to_the_device_of_the_model():
    model = Bigram()
    here = perplexity(model, [batch(TARGETS)])
    assert perplexity(model.cuda(), [batch(TARGETS)]).nats == pytest.approx(here.nats, rel=1e-5)
