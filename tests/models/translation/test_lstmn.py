"""LSTMN against its formulas, cell by cell: the tape, shallow and deep fusion."""

import pytest
import torch
from torch import nn

from regard import trace
from regard.contracts import PaddedTokens
from regard.layers import LSTMNCell, LSTMNStack
from regard.models.translation import LSTMN, LSTMNConfig
from tests.models.translation.stepping import take_steps

SIZE = 5
SOURCES = [[4, 7, 5, 9, 2], [9, 2], [2]]
TARGETS = [[1, 9, 12, 4], [1, 3, 3, 5], [1, 5, 6, 6]]


def randomised(model):
    for parameter in model.parameters():
        nn.init.normal_(parameter, std=0.5)
    return model.double().eval()


def make_model(fusion, num_layers=1):
    sizes = {"source_vocab_size": 11, "target_vocab_size": 13, "embedding_size": 4, "hidden_size": SIZE}
    return randomised(LSTMN(LSTMNConfig(fusion=fusion, num_layers=num_layers, **sizes)))


def zeros():
    return torch.zeros(SIZE, dtype=torch.float64)


def attend_by_hand(part, query, summary, hidden, memory):
    """part: W_g, W_h and v of an attention over a tape; query: W_x x. The two weighted sums and the weights."""
    if not hidden:
        return zeros(), zeros(), []
    score = part.attention.score
    energies = [
        score.energy @ torch.tanh(score.key_proj.weight @ h + query + part.summary_proj.weight @ summary)
        for h in hidden
    ]
    weights = torch.softmax(torch.stack(energies), dim=0)
    return (
        sum(w * h for w, h in zip(weights, hidden, strict=True)),
        sum(w * c for w, c in zip(weights, memory, strict=True)),
        weights,
    )


class ByHand:
    """One tape by the formulas."""

    def __init__(self, cell):
        self.cell, self.hidden, self.memory, self.summary = cell, [], [], zeros()

    def read(self, inputs, extra=0.0, fused=0.0):
        """`extra` is the projection of a second input, which is added."""
        shares = self.cell.input_proj.weight @ inputs + extra
        query, input_gate, forget_gate, output_gate, candidate = shares.chunk(5)
        self.summary, memory, _ = attend_by_hand(self.cell.look, query, self.summary, self.hidden, self.memory)
        from_summary = (self.cell.gates.weight @ self.summary + self.cell.gates.bias).chunk(4)
        input_gate, forget_gate, output_gate = (
            torch.sigmoid(a + b) for a, b in zip((input_gate, forget_gate, output_gate), from_summary[:3], strict=True)
        )
        memory = fused + forget_gate * memory + input_gate * torch.tanh(candidate + from_summary[3])
        self.hidden.append(output_gate * torch.tanh(memory))
        self.memory.append(memory)
        return self.hidden[-1]


def source_tapes(model, source):
    tapes = [ByHand(cell) for cell in model.encoder.cells]
    for token in source:
        state = model.source_embedding.weight[token]
        for tape in tapes:
            state = tape.read(state)
    return tapes


def shallow_by_hand(model, source, target):
    source_tape, decoder = source_tapes(model, source)[-1].hidden, model.decoder
    tapes, score = [ByHand(cell) for cell in decoder.stack.cells], decoder.attention.score
    logits, alignments, state = [], [], zeros()
    for token in target:
        energies = [
            score.energy @ torch.tanh(score.key_proj.weight @ g + score.query_proj.weight @ state) for g in source_tape
        ]
        weights = torch.softmax(torch.stack(energies), dim=0)
        context = sum(w * g for w, g in zip(weights, source_tape, strict=True))
        state = tapes[0].read(model.target_embedding.weight[token], extra=decoder.context_proj.weight @ context)
        for tape in tapes[1:]:
            state = tape.read(state)
        logits.append(model.readout.weight @ state + model.readout.bias)
        alignments.append(weights)
    return torch.stack(logits), alignments


def deep_by_hand(model, source, target):
    across = source_tapes(model, source)
    tapes = [ByHand(layer.cell) for layer in model.decoder.layers]
    summaries, logits, alignments = [zeros()] * len(tapes), [], []
    for token in target:
        state = model.target_embedding.weight[token]
        for place, (layer, tape, other) in enumerate(zip(model.decoder.layers, tapes, across, strict=True)):
            query, gate = (layer.input_proj.weight @ state).chunk(2)
            summaries[place], memory, weights = attend_by_hand(
                layer.across, query, summaries[place], other.hidden, other.memory
            )
            r = torch.sigmoid(layer.gate.weight @ summaries[place] + layer.gate.bias + gate)
            state = tape.read(state, fused=r * memory)
        logits.append(model.readout.weight @ state + model.readout.bias)
        alignments.append(weights)
    return torch.stack(logits), alignments


@pytest.mark.parametrize("num_layers", [1, 2])
@pytest.mark.parametrize(("fusion", "by_hand"), [("shallow", shallow_by_hand), ("deep", deep_by_hand)])
def test_both_fusions_by_hand(fusion, by_hand, num_layers):
    model, source, target = (
        make_model(fusion, num_layers),
        PaddedTokens.from_lists(SOURCES),
        PaddedTokens.from_lists(TARGETS),
    )
    logits = model(source, target)
    _, _, weights_of_steps = take_steps(model, source, target)
    for row, (words, tokens) in enumerate(zip(SOURCES, TARGETS, strict=True)):
        expected, alignments = by_hand(model, words, tokens)
        assert logits[row].allclose(expected)
        for step, weights in enumerate(alignments):
            assert weights_of_steps[row, step, : len(words)].allclose(weights)


def test_a_memory_is_an_argument_and_a_result():
    cell, inputs = randomised(LSTMNCell(input_size=3, hidden_size=SIZE)), torch.randn(2, 6, 3, dtype=torch.float64)
    whole = cell.run(inputs, cell.start(inputs))
    half = cell.run(inputs[:, :3], cell.start(inputs))
    again = cell.run(inputs[:, 3:], half)
    assert half.hidden.shape == (2, 3, SIZE) and again.hidden.allclose(whole.hidden)
    assert whole.last.allclose(whole.hidden[:, -1]) and (cell.start(inputs).last == 0).all()
    by_hand = ByHand(cell)
    assert torch.stack([by_hand.read(x) for x in inputs[0]]).allclose(whole.hidden[0])
    assert torch.stack(by_hand.memory).allclose(whole.cells[0, :, SIZE:])


def test_a_stack_over_a_sequence_equals_its_steps():
    stack = randomised(LSTMNStack(input_size=3, hidden_size=SIZE, num_layers=3))
    inputs = torch.randn(2, 4, 3, dtype=torch.float64)
    tapes = stack.start(inputs)
    for projected in stack.project(inputs).unbind(dim=1):
        tapes = stack(projected, tapes)
    for one, other in zip(tapes, stack.run(inputs), strict=True):
        assert one.cells.allclose(other.cells) and one.summary.allclose(other.summary)


@pytest.mark.parametrize(("fusion", "across"), [("shallow", "decoder.attention"), ("deep", "across.attention")])
def test_a_trace_records_self_attention_and_cross_attention(fusion, across):
    model = make_model(fusion)
    with trace(model) as maps:
        model(PaddedTokens.from_lists(SOURCES), PaddedTokens.from_lists(TARGETS))
    assert len(maps["encoder.cells.0.look.attention"]) == 5
    (path,) = (path for path in maps if path.endswith(across))
    assert [one.weights.shape for one in maps[path]] == [(3, 1, 5)] * 4
    (back,) = (path for path in maps if path.startswith("decoder") and "look" in path)
    assert [one.weights.shape[-1] for one in maps[back]] == [0, 1, 2, 3]


@pytest.mark.unchecked
def test_an_unknown_fusion_is_named_with_its_nearest():
    with pytest.raises(ValueError, match=r"expected one of shallow, deep. Did you mean 'deep'"):
        LSTMN(LSTMNConfig(source_vocab_size=9, target_vocab_size=9, fusion="depe"))
