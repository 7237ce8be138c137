"""LSTMN language model against its formulas."""

import pytest
import torch
from torch import nn

from regard import trace
from regard.models.language_modeling import LSTMNLanguageConfig, LSTMNLanguageModel
from tests.models.language_modeling.by_hand import ROWS, TOKENS, VOCAB, randomised, read_out

SIZE, SPAN = 5, 3


def make_model(**more):
    sizes = {"vocab_size": VOCAB, "embedding_size": 4, "hidden_size": SIZE, "span": SPAN} | more
    return randomised(LSTMNLanguageModel(LSTMNLanguageConfig(**sizes)))


def layer_by_hand(cell, inputs, span):
    """Hidden states of one layer, and the weights of each step."""
    score, tape, hidden, weights_of_words = cell.look.attention.score, [], [], []
    summary = torch.zeros(SIZE, dtype=torch.float64)
    for state in inputs:
        query, *shares = (cell.input_proj.weight @ state).chunk(5)
        query = query + cell.look.summary_proj.weight @ summary
        summary = memory = torch.zeros(SIZE, dtype=torch.float64)
        window, weights = tape[-span:], torch.zeros(0, dtype=torch.float64)
        if window:
            energies = [score.energy @ torch.tanh(score.key_proj.weight @ h + query) for h, _ in window]
            weights = torch.softmax(torch.stack(energies), dim=0)
            summary = sum(weight * h for weight, (h, _) in zip(weights, window, strict=True))
            memory = sum(weight * c for weight, (_, c) in zip(weights, window, strict=True))
        more = (cell.gates.weight @ summary + cell.gates.bias).chunk(4)
        input_gate, forget_gate, output_gate, candidate = (a + b for a, b in zip(shares, more, strict=True))
        memory = torch.sigmoid(forget_gate) * memory + torch.sigmoid(input_gate) * torch.tanh(candidate)
        hidden.append(torch.sigmoid(output_gate) * torch.tanh(memory))
        tape.append((hidden[-1], memory))
        weights_of_words.append(weights)
    return hidden, weights_of_words


def by_hand(model, ids):
    states, weights_of_words = [model.embedding.weight[token] for token in ids], []
    for cell in model.cells:
        states, weights_of_words = layer_by_hand(cell, states, model.config.span)
    return states, weights_of_words


@pytest.mark.parametrize("change", [{}, {"num_layers": 2}, {"span": 1}, {"span": 20}], ids=str)
def test_by_hand(change):
    model = make_model(**change)
    logits = model(TOKENS)
    for row, ids in enumerate(ROWS):
        expected = read_out(model, by_hand(model, ids)[0])
        assert logits[row].allclose(expected, atol=1e-10)


@torch.no_grad()
def test_a_trace_records_every_attention():
    model = make_model()
    with trace(model) as maps:
        model(TOKENS)
    attention_maps = maps["cells.0.look.attention"]
    assert [attention_map.weights.shape for attention_map in attention_maps] == [(2, 1, SPAN)] * TOKENS.shape[1]
    for row, ids in enumerate(ROWS):
        for attention_map, weights in zip(attention_maps, by_hand(model, ids)[1], strict=True):
            empty = SPAN - len(weights)
            assert (attention_map.weights[row, 0, :empty] == 0).all()
            assert attention_map.weights[row, 0, empty:].allclose(weights, atol=1e-10)


def test_a_hook_is_called():
    model, calls = make_model(), []
    model.cells[0].look.register_forward_hook(lambda *_: calls.append(1))
    model(TOKENS)
    assert len(calls) == TOKENS.shape[1]


def test_the_published_size():
    config = LSTMNLanguageConfig()
    assert (config.num_layers, config.embedding_size, config.hidden_size) == (1, 150, 300)
    assert isinstance(LSTMNLanguageModel(config).cells, nn.ModuleList)


@pytest.mark.unchecked
def test_an_empty_span_is_refused():
    with pytest.raises(ValueError, match=r"span is 0, expected 1 or more"):
        make_model(span=0)
