"""LSTMN language model against its formulas."""

import pytest
import torch
from torch import nn

from regard import trace
from regard.models.language_modeling import LSTMNLanguageConfig, LSTMNLanguageModel
from tests.models.language_modeling.by_hand import ROWS, TOKENS, VOCAB, randomised, read_out

SIZE, SPAN = 5, 3


def made(**more):
    sizes = {"vocab_size": VOCAB, "embedding_size": 4, "hidden_size": SIZE, "span": SPAN} | more
    return randomised(LSTMNLanguageModel(LSTMNLanguageConfig(**sizes)))


def layer_by_hand(cell, inputs, span):
    """Hidden states of one layer, and the weights of each look back."""
    score, tape, hidden, looks = cell.look.attention.score, [], [], []
    summary = torch.zeros(SIZE, dtype=torch.float64)
    for given in inputs:
        asked, *shares = (cell.input_proj.weight @ given).chunk(5)
        asked = asked + cell.look.summary_proj.weight @ summary
        summary = memory = torch.zeros(SIZE, dtype=torch.float64)
        seen, weights = tape[-span:], torch.zeros(0, dtype=torch.float64)
        if seen:
            energies = [score.energy @ torch.tanh(score.key_proj.weight @ h + asked) for h, _ in seen]
            weights = torch.softmax(torch.stack(energies), dim=0)
            summary = sum(weight * h for weight, (h, _) in zip(weights, seen, strict=True))
            memory = sum(weight * c for weight, (_, c) in zip(weights, seen, strict=True))
        more = (cell.gates.weight @ summary + cell.gates.bias).chunk(4)
        taken, kept, shown, new = (a + b for a, b in zip(shares, more, strict=True))
        memory = torch.sigmoid(kept) * memory + torch.sigmoid(taken) * torch.tanh(new)
        hidden.append(torch.sigmoid(shown) * torch.tanh(memory))
        tape.append((hidden[-1], memory))
        looks.append(weights)
    return hidden, looks


def by_hand(model, ids):
    states, looks = [model.embedding.weight[token] for token in ids], []
    for cell in model.cells:
        states, looks = layer_by_hand(cell, states, model.config.span)
    return states, looks


@pytest.mark.parametrize("change", [{}, {"num_layers": 2}, {"span": 1}, {"span": 20}], ids=str)
def test_by_hand(change):
    model = made(**change)
    logits = model(TOKENS)
    for row, ids in enumerate(ROWS):
        expected = read_out(model, by_hand(model, ids)[0])
        assert logits[row].allclose(expected, atol=1e-10)


@torch.no_grad()
def test_a_trace_records_every_attention():
    model = made()
    with trace(model) as maps:
        model(TOKENS)
    looks = maps["cells.0.look.attention"]
    assert [seen.weights.shape for seen in looks] == [(2, 1, SPAN)] * TOKENS.shape[1]
    for row, ids in enumerate(ROWS):
        for seen, weights in zip(looks, by_hand(model, ids)[1], strict=True):
            empty = SPAN - len(weights)
            assert (seen.weights[row, 0, :empty] == 0).all()
            assert seen.weights[row, 0, empty:].allclose(weights, atol=1e-10)


def test_a_hook_is_called():
    model, heard = made(), []
    model.cells[0].look.register_forward_hook(lambda *_: heard.append(1))
    model(TOKENS)
    assert len(heard) == TOKENS.shape[1]


def test_the_published_size():
    config = LSTMNLanguageConfig()
    assert (config.num_layers, config.embedding_size, config.hidden_size) == (1, 150, 300)
    assert isinstance(LSTMNLanguageModel(config).cells, nn.ModuleList)


@pytest.mark.unchecked
def test_an_empty_span_is_refused():
    with pytest.raises(ValueError, match=r"span is 0, expected 1 or more"):
        made(span=0)
