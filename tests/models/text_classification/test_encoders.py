"""BiLSTM, LSTMN and Transformer encoders: their states, pooled over their words."""

import torch
from torch import nn

from regard.attention.trace import trace
from regard.contracts import PaddedTokens
from regard.layers import BidirectionalLSTM, max_of_words, mean_of_words
from regard.models.text_classification import (
    BiLSTM,
    BiLSTMConfig,
    LSTMNEncoder,
    LSTMNEncoderConfig,
    TransformerEncoder,
    TransformerEncoderConfig,
)

SENTENCES = PaddedTokens.from_lists([[4, 5, 6, 7], [8], [5, 4, 4], []])
SIZES = {"vocab_size": 9, "num_classes": 3, "hidden_size": 6, "dropout": 0.0}


def test_both_directions_equal_torch_for_each_sequence():
    layer, inputs = BidirectionalLSTM(input_size=3, hidden_size=5), torch.randn(4, 4, 3)
    plain = nn.LSTM(3, 5, batch_first=True, bidirectional=True)
    for name, parameter in layer.forwards.named_parameters():
        getattr(plain, name).data.copy_(parameter)
    for name, parameter in layer.backwards.named_parameters():
        getattr(plain, f"{name}_reverse").data.copy_(parameter)
    actual = layer(inputs, SENTENCES.lengths)
    for row, length in enumerate(SENTENCES.lengths.tolist()):
        assert (actual[row, length:] == 0).all()
        if length:
            assert actual[row, :length].allclose(plain(inputs[row : row + 1, :length])[0][0], atol=1e-6)


def test_pooling_is_over_the_tokens_only():
    states = torch.tensor([[[-3.0, 1.0], [-1.0, 5.0], [9.0, 9.0]], [[7.0, 7.0]] * 3])
    mask = torch.tensor([[True, True, False], [False, False, False]])
    assert mean_of_words(states, mask).tolist() == [[-2.0, 3.0], [0.0, 0.0]]
    assert max_of_words(states, mask).tolist() == [[-1.0, 5.0], [0.0, 0.0]]


@torch.no_grad()
def test_the_bilstm_pools_by_the_maximum():
    model = BiLSTM(BiLSTMConfig(**SIZES, embedding_size=4)).double().eval()
    states = model.encoder(model.embedding(SENTENCES.ids), SENTENCES.lengths)
    logits = model(SENTENCES).logits
    for row, length in enumerate(SENTENCES.lengths.tolist()):
        actual = states[row, :length].amax(dim=0) if length else torch.zeros(12, dtype=torch.float64)
        assert logits[row].allclose(model.output(actual), atol=1e-12)


@torch.no_grad()
def test_the_lstmn_pools_by_the_mean_traced_or_not():
    model = LSTMNEncoder(LSTMNEncoderConfig(**SIZES, embedding_size=4)).double().eval()
    logits = model(SENTENCES).logits
    with trace(model) as maps:
        assert model(SENTENCES).logits.allclose(logits, atol=1e-10)
    maps_of_words = maps["encoder.cells.0.look.attention"]
    assert [one.weights.shape[-1] for one in maps_of_words] == [0, 1, 2, 3], "before every word, over those before it"
    (tape,) = model.encoder.run(model.embedding(SENTENCES.ids[:1]))
    assert logits[:1].allclose(model.classifier(tape.hidden.mean(dim=1)), atol=1e-10)


@torch.no_grad()
def test_the_transformer_pools_by_the_mean():
    config = TransformerEncoderConfig(**SIZES, num_layers=1, num_heads=2, feed_forward_size=8)
    model = TransformerEncoder(config).double().eval()
    words = model.positions(model.embedding(SENTENCES.ids[:1]))
    states = model.layers[0](words, None, None)
    with trace(model) as maps:
        logits = model(SENTENCES).logits
    assert logits[:1].allclose(model.output(states.mean(dim=1)), atol=1e-10)
    (attention_map,) = maps["layers.0.attention"]
    assert attention_map.weights.shape == (4, 2, 4, 4)
