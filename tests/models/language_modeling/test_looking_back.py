"""Attention, Key-Value and Key-Value-Predict against their formulas, and their traces."""

import pytest
import torch

from regard import trace
from regard.contracts import where_batch
from regard.models.language_modeling import LANGUAGE_MODELS
from regard.models.language_modeling.key_value_attention import KeyValuePredict, KeyValuePredictConfig
from tests.models.language_modeling.by_hand import ROWS, TOKENS, VOCAB, lstm_outputs, randomised, read_out

NAMES = ("attention", "key_value", "key_value_predict")
WINDOW = 3
every_form = pytest.mark.parametrize("name", NAMES)


def make_model(name, **more):
    sizes = {"vocab_size": VOCAB, "embedding_size": 4, "hidden_size": 5, "window": WINDOW} | more
    entry = LANGUAGE_MODELS[name]
    return randomised(entry.build(entry.config(**sizes)))


def split(name, output):
    """Key, value and prediction."""
    if name == "attention":
        return output, output, output
    if name == "key_value":
        key, value = output.chunk(2)
        return key, value, value
    return output.chunk(3)


def by_hand(model, name, ids):
    """h* after every word, and the weights over the words before it."""
    score, parts = model.attention.score, [split(name, output) for output in lstm_outputs(model.words, ids)]
    features, weights_of_words = [], []
    for place, (query, _, own) in enumerate(parts):
        before = parts[max(0, place - model.config.window) : place]
        context, weights = torch.zeros_like(own), None
        if before:
            energies = [
                score.energy @ torch.tanh(score.key_proj.weight @ key + score.query_proj.weight @ query)
                for key, _, _ in before
            ]
            weights = torch.softmax(torch.stack(energies), dim=0)
            context = sum(weight * value for weight, (_, value, _) in zip(weights, before, strict=True))
        features.append(torch.tanh(model.context_proj.weight @ context + model.own_proj.weight @ own))
        weights_of_words.append(weights)
    return features, weights_of_words


@every_form
@pytest.mark.parametrize("change", [{}, {"num_layers": 2}, {"window": 1}, {"window": 20}], ids=str)
def test_by_hand(name, change):
    model = make_model(name, **change)
    logits = model(TOKENS)
    for row, ids in enumerate(ROWS):
        features, _ = by_hand(model, name, ids)
        assert logits[row].allclose(read_out(model, features), atol=1e-10)


@every_form
def test_the_lstm_has_the_size_of_all_parts(name):
    model = make_model(name)
    assert model.words.lstm.hidden_size == (NAMES.index(name) + 1) * 5
    assert model.readout.weight.shape == (VOCAB, 5)


@every_form
@torch.no_grad()
def test_a_trace_records_one_map_of_all_words_in_order(name):
    model = make_model(name)
    state = model.features(TOKENS[:, :2], model.start(2)).state
    rest = TOKENS[:, 2:]
    with trace(model) as maps:
        model.features(rest, state)
    (attention_map,) = maps["attention"]
    length = rest.shape[1]
    assert attention_map.weights.shape == (2, length, WINDOW + length)
    for place in range(length):
        row = attention_map.weights[:, place]
        outside = torch.ones(WINDOW + length, dtype=torch.bool)
        # keys begin with the WINDOW outputs before this text, of which the first was never written
        outside[max(place, 1) : place + WINDOW] = False
        assert (row[:, outside] == 0).all() and (row[:, ~outside] > 0).all()
    for number, ids in enumerate(ROWS):
        _, weights_of_words = by_hand(model, name, ids)
        for place, weights in enumerate(weights_of_words[2:]):
            actual = attention_map.weights[number, place, place : place + WINDOW][-len(weights) :]
            assert actual.allclose(weights, atol=1e-10)
    assert attention_map.weights.sum(dim=-1).allclose(torch.ones(2, length, dtype=torch.float64))


@every_form
@torch.no_grad()
def test_without_earlier_words_all_weights_are_zero(name):
    model = make_model(name)
    start = model.start(2)
    state = model.features(TOKENS, start).state
    with trace(model) as maps:
        model.features(TOKENS, where_batch(torch.tensor([True, False]), start, state))
    weights = maps["attention"][0].weights
    assert (weights[0, 0] == 0).all() and weights[1, 0].sum().allclose(torch.ones((), dtype=torch.float64))
    assert weights[:, 1:].sum(dim=-1).allclose(torch.ones(2, TOKENS.shape[1] - 1, dtype=torch.float64))


def test_initial_weights_are_small_and_forget_biases_positive():
    model = KeyValuePredict(KeyValuePredictConfig(vocab_size=VOCAB, embedding_size=4, hidden_size=5, num_layers=2))
    for layer in range(2):
        biases = [getattr(model.words.lstm, f"bias_{side}_l{layer}").view(4, -1) for side in ("ih", "hh")]
        assert ((biases[0] + biases[1])[1] == 1).all() and (biases[0][0].abs() <= 0.1).all()
    assert (model.readout.weight.abs() <= 0.1).all()


@pytest.mark.unchecked
@every_form
def test_a_window_of_zero_is_refused(name):
    with pytest.raises(ValueError, match=r"window is 0, expected 1 or more"):
        make_model(name, window=0)
