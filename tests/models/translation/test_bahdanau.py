"""RNNsearch against its formulas; above all, that the query is the previous state."""

import pytest
import torch
from torch import nn

import regard
from regard.contracts import PaddedTokens
from regard.models.translation import Bahdanau, BahdanauConfig

CONFIG = BahdanauConfig(
    source_vocab_size=11, target_vocab_size=13, embedding_size=4, hidden_size=5, alignment_size=6, maxout_size=3
)


def make_model():
    model = Bahdanau(CONFIG).double().eval()
    for parameter in model.parameters():
        nn.init.normal_(parameter, std=0.5)
    return model


def torch_gru(layer, inputs, state):
    """The encoder's gates: reset after the product, the update gate weights the old state."""
    from_input = (layer.weight_ih_l0 @ inputs + layer.bias_ih_l0).chunk(3)
    own = (layer.weight_hh_l0 @ state + layer.bias_hh_l0).chunk(3)
    reset, update = torch.sigmoid(from_input[0] + own[0]), torch.sigmoid(from_input[1] + own[1])
    return update * state + (1 - update) * torch.tanh(from_input[2] + reset * own[2])


def paper_gru(model, word, context, state):
    """A.1.1: reset inside the product, the update gate weights the new state."""
    from_input = (model.word_gates.weight @ word + model.word_gates.bias + model.context_gates.weight @ context).chunk(
        3
    )
    own_reset, own_update = (model.decoder.gates.weight @ state).chunk(2)
    reset, update = torch.sigmoid(from_input[0] + own_reset), torch.sigmoid(from_input[1] + own_update)
    new = torch.tanh(from_input[2] + model.decoder.candidate.weight @ (reset * state))
    return (1 - update) * state + update * new


def read_source(model, source):
    words = [model.source_embedding.weight[token] for token in source]
    ways = []
    for layer, order in ((model.encoder.forwards, words), (model.encoder.backwards, words[::-1])):
        state, states = torch.zeros(5, dtype=torch.float64), []
        for word in order:
            state = torch_gru(layer, word, state)
            states.append(state)
        ways.append(states)
    forwards, backwards = ways[0], ways[1][::-1]
    return [torch.cat(pair) for pair in zip(forwards, backwards, strict=True)], backwards[0]


def attend_by_hand(model, state, states):
    score = model.attention.score
    query = score.query_proj.weight @ state
    energies = [score.energy @ torch.tanh(query + score.key_proj.weight @ one) for one in states]
    weights = torch.softmax(torch.stack(energies), dim=0)
    return weights, sum(weight * one for weight, one in zip(weights, states, strict=True))


def by_hand(model, source, target):
    states, first_backward = read_source(model, source)
    state = torch.tanh(model.start_proj.weight @ first_backward + model.start_proj.bias)
    logits, alignment = [], []
    for token in target:
        word = model.target_embedding.weight[token]
        weights, context = attend_by_hand(model, state, states)
        state = paper_gru(model, word, context, state)
        pieces = model.maxout.proj.weight @ torch.cat([state, context, word]) + model.maxout.proj.bias
        best = torch.maximum(pieces[0::2], pieces[1::2])
        logits.append(model.readout.weight @ best + model.readout.bias)
        alignment.append(weights)
    return torch.stack(logits), torch.stack(alignment)


def test_the_system_equals_its_formulas():
    model = make_model()
    sources, targets = [[4, 7, 5, 2], [9, 2], [2]], [[1, 9, 12], [1, 3, 3], [1, 5, 6]]
    logits = model(PaddedTokens.from_lists(sources), PaddedTokens.from_lists(targets))
    for source, target, actual in zip(sources, targets, logits, strict=True):
        assert actual.allclose(by_hand(model, source, target)[0])


def test_the_query_is_the_previous_state():
    model, source = make_model(), PaddedTokens.from_lists([[4, 7, 5, 2]])
    encoded = model.encode(source)
    state = model.start(encoded)
    first = model.step(torch.tensor([1]), state, encoded)
    other = model.step(torch.tensor([9]), state, encoded)
    # the current word changes the state, which is the query of the next step
    assert torch.equal(first.weights, other.weights)
    assert not first.logits.allclose(other.logits)
    again = [model.step(torch.tensor([3]), step.state, encoded).weights for step in (first, other)]
    assert not again[0].allclose(again[1])
    expected = by_hand(model, [4, 7, 5, 2], [1, 3])[1]
    assert torch.cat([first.weights, again[0]]).allclose(expected)


@pytest.mark.unchecked
def test_every_attention_is_traced():
    model, target = make_model(), PaddedTokens.from_lists([[1, 9, 12]])
    with regard.trace(model) as maps:
        model(PaddedTokens.from_lists([[4, 7, 5, 2]]), target)
    assert [one.weights.shape for one in maps["attention"]] == [(1, 1, 4)] * 3
