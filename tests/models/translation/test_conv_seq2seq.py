"""ConvS2S against its formulas, position by position, and its initialisation."""

import math

import pytest
import torch
from torch import nn

from regard import trace
from regard.contracts import PaddedTokens
from regard.layers import CausalConvolution, GatedConvolution, SameConvolution, normalised_linear
from regard.models.translation import ConvSeq2Seq, ConvSeq2SeqConfig
from tests.models.translation.stepping import take_steps

SIZE, KERNEL, LAYERS = 5, 3, 2
FACTORS = {"paper": (1, 1, 1), "authors": (0.5**0.5,) * 3, "context": (1, 1, 0.5**0.5)}
"""Factors of the query, of the values, and of context plus state."""
SOURCES = [[4, 7, 5, 9, 2], [9, 2], [2]]
TARGETS = [[1, 9, 12, 4], [1, 3, 3, 5], [1, 5, 6, 6]]


def make_model(**change):
    sizes = {"source_vocab_size": 11, "target_vocab_size": 13, "embedding_size": 4, "hidden_size": SIZE}
    sizes |= {"num_layers": LAYERS, "kernel_size": KERNEL, "max_length": 8}
    model = ConvSeq2Seq(ConvSeq2SeqConfig(**sizes | change))
    for parameter in model.parameters():
        nn.init.normal_(parameter, std=0.7)
    return model.double().eval()


def linear(layer, vector):
    """g v / |v| by rows."""
    magnitude, direction = layer.parametrizations.weight.original0, layer.parametrizations.weight.original1
    weight = torch.stack([g * v / v.norm() for g, v in zip(magnitude, direction, strict=True)])
    return weight @ vector + layer.bias


def gated(convolution, states, first):
    """The block's output for the window that begins at `first`; positions outside are zeros."""
    nothing = torch.zeros(SIZE, dtype=torch.float64)
    window = [states[place] if 0 <= place < len(states) else nothing for place in range(first, first + KERNEL)]
    a, b = linear(convolution.filter, torch.cat(window)).chunk(2)
    return a * torch.sigmoid(b)


def embed(embedding, tokens):
    table = embedding.places.table.weight
    return [embedding.words.weight[token] + table[place] for place, token in enumerate(tokens)]


def by_hand(model, source, target):
    half, e = math.sqrt(0.5), embed(model.source_embedding, source)
    states = [linear(model.encoder_input, word) for word in e]
    for layer in model.encoder:
        states = [(gated(layer.convolution, states, i - 1) + states[i]) * half for i in range(len(states))]
    z = [linear(model.encoder_output, state) for state in states]
    g = embed(model.target_embedding, target)
    states, m = [linear(model.decoder_input, word) for word in g], len(source)
    weights_of_words = []
    for layer in model.decoder:
        after, weights = [], []
        for i in range(len(states)):
            h = gated(layer.convolution.convolution, states, i - KERNEL + 1)
            query, value, context = FACTORS[model.config.scaling]
            d = (linear(layer.query_proj, h) + g[i]) * query
            a = torch.softmax(torch.stack([d @ key for key in z]), dim=0)
            c = m * math.sqrt(1 / m) * sum(a[j] * (z[j] + e[j]) * value for j in range(m))
            after.append(((linear(layer.context_proj, c) + h) * context + states[i]) * half)
            weights.append(a)
        states = after
        weights_of_words.append(torch.stack(weights))
    features = [linear(model.decoder_output, state) for state in states]
    logits = [model.readout.weight @ feature + model.readout.bias for feature in features]
    return torch.stack(logits), torch.stack(weights_of_words).mean(dim=0)


@pytest.mark.parametrize("scaling", FACTORS)
def test_forward_and_steps_equal_the_formula(scaling):
    model, source, target = (
        make_model(scaling=scaling),
        PaddedTokens.from_lists(SOURCES),
        PaddedTokens.from_lists(TARGETS),
    )
    logits, (encoded, stepped, weights_of_steps) = model(source, target), take_steps(model, source, target)
    for row, (words, tokens) in enumerate(zip(SOURCES, TARGETS, strict=True)):
        expected, alignment = by_hand(model, words, tokens)
        assert logits[row].allclose(expected)
        assert stepped[row].allclose(expected)
        assert weights_of_steps[row, :, : len(words)].allclose(alignment)
    first = model.step(target.ids[:, 0], model.start(encoded), encoded)
    assert [window.shape for window in first.state.windows] == [(3, KERNEL - 1, SIZE)] * LAYERS


def test_gradients_into_the_encoder_are_scaled_and_those_into_its_words_are_not():
    model, source, target = make_model(), PaddedTokens.from_lists(SOURCES[:1]), PaddedTokens.from_lists(TARGETS[:1])
    model(source, target).square().sum().backward()
    scaled = model.encoder_output.bias.grad.clone()
    encoded = model.encode(source)
    keys = encoded.memory.keys.detach().requires_grad_()
    words = (encoded.memory.values - encoded.memory.keys).detach()
    memory = type(encoded.memory)(keys=keys, values=keys + words, mask=encoded.memory.mask)
    unscaled = type(encoded)(memory=memory, lengths=encoded.lengths)
    features = model.advance(target.ids, model.start(unscaled), unscaled).features
    model.readout(features).square().sum().backward()
    assert scaled.allclose(keys.grad.sum(dim=(0, 1)) / (2 * LAYERS))


def test_training_starts_as_published():
    model = ConvSeq2Seq(ConvSeq2SeqConfig(source_vocab_size=500, target_vocab_size=500, num_layers=1, dropout=0.2))
    assert model.source_embedding.words.weight.std().item() == pytest.approx(0.1, rel=0.02)
    assert model.target_embedding.places.table.weight.std().item() == pytest.approx(0.1, rel=0.02)
    block = model.encoder[0].convolution.filter
    assert block.weight.std().item() == pytest.approx(math.sqrt(4 * 0.8 / (3 * 512)), rel=0.02)
    assert model.encoder_input.weight.std().item() == pytest.approx(math.sqrt(0.8 / 512), rel=0.02)
    assert model.encoder_output.weight.std().item() == pytest.approx(math.sqrt(1 / 512), rel=0.02)
    assert (block.bias == 0).all()
    states = torch.randn(4, 9, 512)
    variance = model.encoder[0].eval()(states, torch.ones(4, 9, dtype=torch.bool)).var().item()
    assert variance == pytest.approx(0.8, rel=0.5), "the initialisation compensates the gate's loss of variance"
    config = ConvSeq2SeqConfig()
    assert (config.num_layers, config.hidden_size, config.embedding_size, config.kernel_size) == (20, 512, 512, 3)


def test_positions_past_the_last_one_use_its_vector():
    model = make_model(max_length=3)
    e = model.source_embedding(torch.tensor([[5, 5, 5, 5, 5]]))[0]
    assert e[3].equal(e[2]) and e[4].equal(e[2]) and not e[1].equal(e[2])
    assert model.target_embedding(torch.tensor([[5]]), 7)[0, 0].equal(
        model.target_embedding(torch.tensor([[5]]), 2)[0, 0]
    )


def test_every_decoder_layer_attends():
    model = make_model()
    with trace(model) as maps:
        model(PaddedTokens.from_lists(SOURCES), PaddedTokens.from_lists(TARGETS))
    assert list(maps) == [f"decoder.{layer}.attention" for layer in range(LAYERS)]


@pytest.mark.parametrize("kernel_size", [1, 2, 3, 4])
def test_convolutions_equal_those_of_torch(kernel_size):
    states, mask = torch.randn(2, 6, SIZE), torch.tensor([[True] * 6, [True] * 4 + [False] * 2])
    before, after = (kernel_size - 1) // 2, kernel_size // 2
    for layer in (
        SameConvolution(hidden_size=SIZE, kernel_size=kernel_size),
        CausalConvolution(hidden_size=SIZE, kernel_size=kernel_size),
    ):
        weight = layer.convolution.filter.weight.unflatten(1, (kernel_size, SIZE)).transpose(1, 2)
        same = isinstance(layer, SameConvolution)
        inputs = states * mask.unsqueeze(-1) if same else states
        padded = nn.functional.pad(inputs.transpose(1, 2), (before, after) if same else (kernel_size - 1, 0))
        expected = nn.functional.glu(nn.functional.conv1d(padded, weight, layer.convolution.filter.bias), dim=1)
        actual = layer(states, mask) if same else layer(states, layer.start(states)).states
        assert actual.allclose(expected.transpose(1, 2), atol=1e-6)


def test_a_window_continues_a_convolution():
    layer, states = CausalConvolution(hidden_size=SIZE, kernel_size=4), torch.randn(2, 7, SIZE)
    whole, window, parts = layer(states, layer.start(states)).states, layer.start(states), []
    for piece in states.split([1, 2, 1, 3], dim=1):
        output = layer(piece, window)
        window = output.window
        parts.append(output.states)
    assert torch.cat(parts, dim=1).allclose(whole, atol=1e-6) and window.equal(states[:, -3:])
    with pytest.raises(ValueError, match="kernel_size is 0"):
        GatedConvolution(hidden_size=SIZE, kernel_size=0)


def test_normalised_weights_are_two_plain_tensors():
    layer = normalised_linear(3, 4)
    assert set(layer.state_dict()) == {"bias", "parametrizations.weight.original0", "parametrizations.weight.original1"}
    vector = torch.randn(3)
    assert layer(vector).allclose(linear(layer, vector), atol=1e-6)


@pytest.mark.unchecked
def test_compiled_equals_eager():
    model, source, target = make_model(), PaddedTokens.from_lists(SOURCES), PaddedTokens.from_lists(TARGETS)
    compiled = torch.compile(model.features, backend="aot_eager", fullgraph=True)
    actual = compiled(source, target)
    assert actual.features.allclose(model.features(source, target).features)
    actual.features.sum().backward()
    assert model.encoder_output.parametrizations.weight.original1.grad.isfinite().all()
