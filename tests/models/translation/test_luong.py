"""Luong against its formulas, word by word: every score, every alignment, with and without input feeding."""

import math

import pytest
import torch
from torch import nn

from regard import trace
from regard.contracts import PaddedTokens
from regard.models.translation import Luong, LuongConfig
from tests.models.translation.stepping import take_steps

SIZE, LAYERS, WINDOW = 5, 2, 2
SOURCES = [[4, 7, 5, 9, 3, 8, 2], [9, 2], [2]]
TARGETS = [[1, 9, 12, 4], [1, 3, 3, 5], [1, 5, 6, 6]]


def make_model(**change):
    model = Luong(
        LuongConfig(
            source_vocab_size=11,
            target_vocab_size=13,
            embedding_size=4,
            hidden_size=SIZE,
            num_layers=LAYERS,
            window=WINDOW,
            **change,
        )
    )
    for parameter in model.parameters():
        nn.init.normal_(parameter, std=0.5)
    return model.double().eval()


def cell(gates, memory):
    input_gate, forget_gate, candidate, output_gate = gates.chunk(4)
    memory = torch.sigmoid(forget_gate) * memory + torch.sigmoid(input_gate) * torch.tanh(candidate)
    return torch.sigmoid(output_gate) * torch.tanh(memory), memory


def read_backwards(model, source):
    """Top states in the sentence's order, and the last (state, cell) of every layer."""
    zeros = torch.zeros(SIZE, dtype=torch.float64)
    states, tops, lstm = [(zeros, zeros)] * LAYERS, {}, model.encoder
    for place in reversed(range(len(source))):
        below = model.source_embedding.weight[source[place]]
        for layer, (before, memory) in enumerate(states):
            weights = [getattr(lstm, f"{kind}_l{layer}") for kind in ("weight_ih", "bias_ih", "weight_hh", "bias_hh")]
            gates = weights[0] @ below + weights[1] + weights[2] @ before + weights[3]
            states[layer] = cell(gates, memory)
            below = states[layer][0]
        tops[place] = below
    return [tops[place] for place in range(len(source))], states


def score(model, state, top, place):
    part = model.attention.score
    return {
        "dot": lambda: state @ top,
        "general": lambda: (part.query_proj.weight @ state) @ top,
        "concat": lambda: part.energy @ torch.tanh(part.proj.weight @ torch.cat([state, top])),
        "location": lambda: part.position_proj.weight[place] @ state,
    }[model.config.score]()


def weigh(model, state, tops, step):
    kind, align, length = model.config.alignment, model.attention.align, len(tops)
    centre = torch.tensor(float(step))
    if kind == "local_predictive":
        centre = length * torch.sigmoid(align.place @ torch.tanh(align.query_proj.weight @ state))
    near = [kind == "global" or abs(place - centre) <= WINDOW for place in range(length)]
    raised = [
        torch.exp(score(model, state, top, place)) if near[place] else state.new_zeros(())
        for place, top in enumerate(tops)
    ]
    weights = [one / sum(raised) if any(near) else one for one in raised]
    if kind == "local_predictive":
        deviation = WINDOW / 2
        weights = [one * torch.exp(-((place - centre) ** 2) / (2 * deviation**2)) for place, one in enumerate(weights)]
    return torch.stack(weights)


def by_hand(model, source, target):
    tops, states = read_backwards(model, source)
    attended = torch.zeros(SIZE, dtype=torch.float64)
    logits, alignments = [], []
    for step, token in enumerate(target):
        word = model.word_gates.weight @ model.target_embedding.weight[token] + model.word_gates.bias
        below = attended if model.config.input_feeding else attended[:0]
        for layer, (before, memory) in enumerate(states):
            gates = model.gates[layer].weight @ torch.cat([below, before]) + model.gates[layer].bias
            states[layer] = cell(gates + word if layer == 0 else gates, memory)
            below = states[layer][0]
        weights = weigh(model, below, tops, step)
        context = sum(one * top for one, top in zip(weights, tops, strict=True))
        attended = torch.tanh(model.combine.weight @ torch.cat([context, below]))
        logits.append(model.readout.weight @ attended + model.readout.bias)
        alignments.append(weights)
    return torch.stack(logits), alignments


@pytest.mark.parametrize("input_feeding", [True, False])
@pytest.mark.parametrize("alignment", ["global", "local_monotonic", "local_predictive"])
@pytest.mark.parametrize("name", ["dot", "general", "concat", "location"])
def test_every_form_by_hand(name, alignment, input_feeding):
    model = make_model(score=name, alignment=alignment, input_feeding=input_feeding, max_length=9)
    source, target = PaddedTokens.from_lists(SOURCES), PaddedTokens.from_lists(TARGETS)
    logits = model(source, target)
    _, _, weights_of_steps = take_steps(model, source, target)
    for row, (words, tokens) in enumerate(zip(SOURCES, TARGETS, strict=True)):
        expected, alignments = by_hand(model, words, tokens)
        assert logits[row].allclose(expected)
        for step, weights in enumerate(alignments):
            assert weights_of_steps[row, step, : len(words)].allclose(weights)
            assert (weights_of_steps[row, step, len(words) :] == 0).all()


def test_past_the_end_of_the_source_a_monotonic_window_has_no_weight():
    model = make_model(alignment="local_monotonic")
    encoded = model.encode(PaddedTokens.from_lists([[9, 2]]))
    state = model.start(encoded)
    for step in range(6):
        output = model.step(torch.tensor([5]), state, encoded)
        state = output.state
        assert output.weights.sum().item() == pytest.approx(1.0 if step <= 1 + WINDOW else 0.0)
        assert output.logits.isfinite().all()


def test_words_past_the_last_location_get_no_weight():
    model = make_model(score="location", max_length=3)
    with pytest.warns(UserWarning, match="3 positions"):
        encoded = model.encode(PaddedTokens.from_lists(SOURCES))
    weights = model.step(torch.tensor([1, 1, 1]), model.start(encoded), encoded).weights
    assert (weights[:, 3:] == 0).all() and weights.sum(dim=-1).allclose(torch.ones(3, dtype=torch.float64))


def test_the_attended_state_is_an_input_of_the_next_step():
    source, target = PaddedTokens.from_lists(SOURCES), PaddedTokens.from_lists(TARGETS)
    for feeding in (True, False):
        model = make_model(input_feeding=feeding)
        encoded = model.encode(source)
        state = model.step(target.ids[:, 0], model.start(encoded), encoded).state
        changed_state = type(state)(hidden=state.hidden, cells=state.cells, attended=state.attended + 1.0, length=1)
        pair = [model.step(target.ids[:, 1], each, encoded).logits for each in (state, changed_state)]
        assert pair[0].allclose(pair[1]) != feeding


def test_a_trace_records_one_attention_per_word():
    model = make_model()
    with trace(model) as maps:
        model(PaddedTokens.from_lists(SOURCES), PaddedTokens.from_lists(TARGETS))
    assert list(maps) == ["attention"] and len(maps["attention"]) == 4


def test_published_sizes_and_range():
    config = LuongConfig()
    assert (config.num_layers, config.hidden_size, config.embedding_size) == (4, 1000, 1000)
    assert (config.dropout, config.window) == (0.2, 10)
    small = Luong(LuongConfig(source_vocab_size=9, target_vocab_size=9, embedding_size=4, hidden_size=4))
    assert max(parameter.abs().max().item() for parameter in small.parameters()) <= 0.1
    assert math.isclose(small.encoder.dropout, 0.2)


@pytest.mark.parametrize(("field", "name", "near"), [("score", "dots", "dot"), ("alignment", "globl", "global")])
def test_an_unknown_form_is_named_with_its_nearest(field, name, near):
    with pytest.raises(ValueError, match=f"Did you mean '{near}'"):
        make_model(**{field: name})
