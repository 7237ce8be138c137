"""The replacement inside torch's own layers gives their outputs, on every path."""

import copy
import itertools

import pytest
import torch
from torch import nn

import regard
from regard.interop import MultiheadAttention

SIZE, HEADS, BATCH, LENGTH = 8, 2, 2, 4

pytestmark = [
    pytest.mark.filterwarnings("ignore:Support for mismatched"),
    pytest.mark.filterwarnings("ignore:enable_nested_tensor is True"),
    pytest.mark.filterwarnings("ignore:The PyTorch API of nested tensors"),
]


def with_ours(model):
    """A copy whose every attention is ours, with the same parameters."""
    model = copy.deepcopy(model)
    for module in list(model.modules()):
        for name, child in list(module.named_children()):
            if type(child) is nn.MultiheadAttention:
                ours = MultiheadAttention(
                    child.embed_dim, child.num_heads, child.dropout, batch_first=child.batch_first
                ).to(child.out_proj.weight.dtype)
                ours.load_state_dict(child.state_dict())
                setattr(module, name, ours.train(child.training))
    return model


def encoder_layer(**build):
    return nn.TransformerEncoderLayer(SIZE, HEADS, 16, dropout=0.0, dtype=torch.float64, **build)


def masks(kind):
    triangle = nn.Transformer.generate_square_subsequent_mask(LENGTH, dtype=torch.float64)
    padding = torch.tensor([[False] * 4, [False, False, False, True]])
    return {
        "none": {},
        "padding": {"src_key_padding_mask": padding},
        "causal": {"src_mask": triangle, "is_causal": True},
        "bool": {"src_mask": triangle == -torch.inf},
        "both": {"src_mask": triangle, "src_key_padding_mask": padding},
    }[kind]


@pytest.mark.parametrize("kind", ["none", "padding", "causal", "bool", "both"])
@pytest.mark.parametrize("norm_first", [True, False])
@pytest.mark.parametrize("batch_first", [True, False])
def test_an_encoder_layer_gives_equal_outputs(kind, norm_first, batch_first):
    theirs = encoder_layer(norm_first=norm_first, batch_first=batch_first)
    ours = with_ours(theirs)
    states = torch.randn((BATCH, LENGTH, SIZE) if batch_first else (LENGTH, BATCH, SIZE), dtype=torch.float64)
    for training, gradients in itertools.product((True, False), (True, False)):
        with torch.set_grad_enabled(gradients):
            expected, actual = (layer.train(training)(states, **masks(kind)) for layer in (theirs, ours))
        torch.testing.assert_close(actual, expected)
    expected, actual = (
        torch.autograd.grad(layer(states, **masks(kind)).square().sum(), list(layer.parameters()))
        for layer in (theirs, ours)
    )
    for one, other in zip(actual, expected, strict=True):
        torch.testing.assert_close(one, other)


@pytest.mark.parametrize("batch_first", [True, False])
def test_a_decoder_layer_gives_equal_outputs(batch_first):
    theirs = nn.TransformerDecoderLayer(SIZE, HEADS, 16, dropout=0.0, batch_first=batch_first, dtype=torch.float64)
    ours = with_ours(theirs)
    assert isinstance(ours.multihead_attn, MultiheadAttention)
    target, memory = (
        torch.randn((BATCH, length, SIZE) if batch_first else (length, BATCH, SIZE), dtype=torch.float64)
        for length in (LENGTH, 5)
    )
    call = {
        "tgt_mask": nn.Transformer.generate_square_subsequent_mask(LENGTH, dtype=torch.float64),
        "tgt_is_causal": True,
        "memory_key_padding_mask": torch.tensor([[False] * 5, [False] * 3 + [True] * 2]),
    }
    for training in (True, False):
        expected, actual = (layer.train(training)(target, memory, **call) for layer in (theirs, ours))
        torch.testing.assert_close(actual, expected)


@pytest.mark.parametrize("kind", ["none", "padding", "causal", "both"])
@pytest.mark.parametrize("gradients", [True, False])
@pytest.mark.parametrize("nested", [True, False])
def test_an_encoder_gives_equal_outputs(kind, gradients, nested):
    """Without gradients torch packs a padded batch into a nested tensor before the first layer."""
    layer = encoder_layer(batch_first=True)
    theirs = nn.TransformerEncoder(layer, 2, enable_nested_tensor=nested)
    for parameter in theirs.parameters():
        nn.init.normal_(parameter, std=0.3)
    call = {{"src_mask": "mask"}.get(name, name): mask for name, mask in masks(kind).items()}
    states = torch.randn(BATCH, LENGTH, SIZE, dtype=torch.float64)
    for training in (True, False):
        with torch.set_grad_enabled(gradients):
            expected, actual = (model.train(training)(states, **call) for model in (theirs, with_ours(theirs)))
        torch.testing.assert_close(actual, expected)


def test_a_whole_transformer_gives_equal_outputs_and_is_traced():
    theirs = nn.Transformer(SIZE, HEADS, 1, 2, 16, dropout=0.0, batch_first=True, dtype=torch.float64).eval()
    ours = with_ours(theirs)
    source, target = (torch.randn(BATCH, length, SIZE, dtype=torch.float64) for length in (5, LENGTH))
    call = {
        "tgt_mask": nn.Transformer.generate_square_subsequent_mask(LENGTH, dtype=torch.float64),
        "src_key_padding_mask": torch.tensor([[False] * 5, [False] * 3 + [True] * 2]),
    }
    with torch.no_grad():
        expected = theirs(source, target, **call)
        torch.testing.assert_close(ours(source, target, **call), expected)
        with regard.trace(ours) as maps:
            torch.testing.assert_close(ours(source, target, **call), expected)
    assert set(maps) == {
        "encoder.layers.0.self_attn",
        *(f"decoder.layers.{layer}.{name}" for layer in (0, 1) for name in ("self_attn", "multihead_attn")),
    }
    weights = maps["decoder.layers.1.self_attn"][0].weights
    assert (weights.triu(1) == 0).all()
    assert maps["encoder.layers.0.self_attn"][0].weights[1, ..., 3:].sum() == 0


@pytest.mark.parametrize("training", [True, False])
def test_torchs_inference_path_does_not_replace_our_attention(training):
    """torch's path converts float masks to booleans and gives NaN for a query without keys; ours does neither."""
    layer = with_ours(encoder_layer(batch_first=True)).train(training)
    states = torch.randn(BATCH, LENGTH, SIZE, dtype=torch.float64)
    forbidden = torch.zeros(LENGTH, LENGTH, dtype=torch.bool)
    forbidden[1] = True
    added = torch.randn(LENGTH, LENGTH, dtype=torch.float64)
    with torch.no_grad():
        assert layer(states, src_mask=forbidden).isfinite().all()
        actual = layer(states, src_mask=added)
    # with gradients torch's layer calls its attention module
    torch.testing.assert_close(actual, layer(states, src_mask=added).detach())


def nested_case():
    rows = [torch.randn(length, SIZE, dtype=torch.float64) for length in (2, 4, 0)]
    return rows, torch.nested.nested_tensor(rows)


@pytest.mark.parametrize("need_weights", [True, False])
def test_nested_tensors_equal_their_rows_alone(need_weights):
    ours = MultiheadAttention(SIZE, HEADS, batch_first=True, dtype=torch.float64).eval()
    rows, nested = nested_case()
    output, weights = ours(nested, nested, nested, need_weights=need_weights)
    assert output.is_nested
    for index, (row, actual) in enumerate(zip(rows, output.unbind(), strict=True)):
        expected, expected_weights = ours(row, row, row)
        torch.testing.assert_close(actual, expected)
        if weights is not None:
            torch.testing.assert_close(weights[index, : len(row), : len(row)], expected_weights)
            assert weights[index].count_nonzero() == len(row) ** 2


def test_unsupported_nested_tensors_raise_errors():
    _, nested = nested_case()
    other = nested.clone()
    ours = MultiheadAttention(SIZE, HEADS, batch_first=True, dtype=torch.float64)
    with pytest.raises(ValueError, match="not the same tensor"):
        ours(nested, other, other)
    with pytest.raises(ValueError, match="the lengths are the mask"):
        ours(nested, nested, nested, key_padding_mask=torch.zeros(3, 4, dtype=torch.bool))
    with pytest.raises(ValueError, match="batch_first is False"):
        MultiheadAttention(SIZE, HEADS, dtype=torch.float64)(nested, nested, nested)
    with pytest.raises(ValueError, match="query is not"):
        ours(nested.to_padded_tensor(0.0), nested, nested)
