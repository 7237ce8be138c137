"""Seq2Seq against its formulas: the reversal, and the initial state of every layer of the decoder."""

import torch
from torch import nn

from regard.contracts import PaddedTokens
from regard.models.translation import Seq2Seq, Seq2SeqConfig

CONFIG = Seq2SeqConfig(source_vocab_size=11, target_vocab_size=13, embedding_size=4, hidden_size=5, num_layers=3)


def make_model():
    model = Seq2Seq(CONFIG).double().eval()
    for parameter in model.parameters():
        nn.init.normal_(parameter, std=0.5)
    return model


def lstm(stack, inputs, states):
    """One step of all layers; states are pairs (hidden, cell)."""
    after = []
    for layer, (before, memory) in enumerate(states):
        weights = [getattr(stack, f"{kind}_l{layer}") for kind in ("weight_ih", "bias_ih", "weight_hh", "bias_hh")]
        gates = weights[0] @ inputs + weights[1] + weights[2] @ before + weights[3]
        input_gate, forget_gate, candidate, output_gate = gates.chunk(4)
        cell = torch.sigmoid(forget_gate) * memory + torch.sigmoid(input_gate) * torch.tanh(candidate)
        hidden = torch.sigmoid(output_gate) * torch.tanh(cell)
        after.append((hidden, cell))
        inputs = hidden
    return after


def by_hand(model, source, target):
    states = [(torch.zeros(5, dtype=torch.float64),) * 2] * 3
    for token in reversed(source):
        states = lstm(model.encoder, model.source_embedding.weight[token], states)
    logits = []
    for token in target:
        states = lstm(model.decoder, model.target_embedding.weight[token], states)
        logits.append(model.readout.weight @ states[-1][0] + model.readout.bias)
    return torch.stack(logits)


def test_the_source_is_reversed_and_every_layer_starts_the_decoder():
    model = make_model()
    sources, targets = [[4, 7, 5, 2], [9, 2], [2]], [[1, 9, 12], [1, 3, 3], [1, 5, 6]]
    logits = model(PaddedTokens.from_lists(sources), PaddedTokens.from_lists(targets))
    for source, target, actual in zip(sources, targets, logits, strict=True):
        assert actual.allclose(by_hand(model, source, target))
    assert not logits[0].allclose(by_hand(model, [2, 5, 7, 4], targets[0]))


def test_after_the_start_the_source_has_no_effect():
    model = make_model()
    encoded, other = (
        model.encode(PaddedTokens.from_lists([[4, 7, 2]])),
        model.encode(PaddedTokens.from_lists([[9, 9, 9, 2]])),
    )
    state, token = model.start(encoded), torch.tensor([5])
    assert torch.equal(model.step(token, state, encoded).logits, model.step(token, state, other).logits)
