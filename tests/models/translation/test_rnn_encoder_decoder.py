"""The RNN encoder-decoder against its formulas, gate by gate."""

import torch
from torch import nn

from regard.contracts import PaddedTokens
from regard.models.translation import RNNEncoderDecoder, RNNEncoderDecoderConfig

CONFIG = RNNEncoderDecoderConfig(
    source_vocab_size=11, target_vocab_size=13, embedding_size=4, hidden_size=5, maxout_size=3
)


def make_model():
    model = RNNEncoderDecoder(CONFIG).double().eval()
    for parameter in model.parameters():
        nn.init.normal_(parameter, std=0.5)
    return model


def gru(layer, inputs, state):
    """torch's gates: reset, update, new; the update gate weights the old state."""
    from_input = (layer.weight_ih_l0 @ inputs + layer.bias_ih_l0).chunk(3)
    own = (layer.weight_hh_l0 @ state + layer.bias_hh_l0).chunk(3)
    reset, update = torch.sigmoid(from_input[0] + own[0]), torch.sigmoid(from_input[1] + own[1])
    return update * state + (1 - update) * torch.tanh(from_input[2] + reset * own[2])


def test_the_source_vector_is_an_input_of_start_step_and_readout():
    model = make_model()
    source, target = PaddedTokens.from_lists([[4, 7, 5, 2]]), PaddedTokens.from_lists([[1, 9, 12]])
    state = torch.zeros(5, dtype=torch.float64)
    for token in source.ids[0]:
        state = gru(model.encoder, model.source_embedding.weight[token], state)
    summary = torch.tanh(model.summary_proj.weight @ state + model.summary_proj.bias)
    assert model.encode(source).summary[0].allclose(summary)
    state = torch.tanh(model.start_proj.weight @ summary + model.start_proj.bias)
    logits = []
    for token in target.ids[0]:
        word = model.target_embedding.weight[token]
        state = gru(model.decoder, torch.cat([word, summary]), state)
        pieces = model.maxout.proj.weight @ torch.cat([state, word, summary]) + model.maxout.proj.bias
        best = torch.maximum(pieces[0::2], pieces[1::2])
        logits.append(model.readout.weight @ (model.narrow.weight @ best) + model.readout.bias)
    assert model(source, target)[0].allclose(torch.stack(logits))


def test_the_source_vector_is_that_of_the_last_word():
    model = make_model()
    pair = PaddedTokens.from_lists([[4, 7, 2], [4, 7, 2, 9, 9, 2]])
    alone = model.encode(PaddedTokens.from_lists([[4, 7, 2]])).summary
    actual = model.encode(pair).summary
    assert actual[0].allclose(alone[0]) and not actual[1].allclose(alone[0])
