"""LSTM language model: its formula, its sizes, and where dropout acts."""

import pytest
import torch

from regard.models.language_modeling import LSTMLanguageConfig, LSTMLanguageModel
from tests.models.language_modeling.by_hand import ROWS, TOKENS, VOCAB, lstm_outputs, randomised, read_out


def built(**more):
    sizes = {"vocab_size": VOCAB, "embedding_size": 4, "hidden_size": 5} | more
    return LSTMLanguageModel(LSTMLanguageConfig(**sizes))


def test_by_hand():
    model = randomised(built())
    logits = model(TOKENS)
    for row, ids in enumerate(ROWS):
        assert logits[row].allclose(read_out(model, lstm_outputs(model.words, ids)), atol=1e-10)


def test_the_published_size_and_initial_weights():
    config = LSTMLanguageConfig()
    assert (config.num_layers, config.embedding_size, config.hidden_size, config.dropout) == (2, 650, 650, 0.5)
    for path, parameter in built().named_parameters():
        assert (parameter.abs() <= 0.05).all() and (parameter != 0).all(), path


def test_dropout_is_on_words_between_layers_and_before_the_readout():
    model = built(num_layers=3, dropout=1.0)
    assert (model.words.dropout.p, model.words.lstm.dropout, model.dropout.p) == (1.0, 1.0, 1.0)
    assert (model.train().features(TOKENS, model.start(2)).features == 0).all()
    assert (model.eval().features(TOKENS, model.start(2)).features != 0).any()


def test_tied_weights_are_one_parameter():
    model = built(embedding_size=5, tied=True)
    assert model.readout.weight is model.words.embedding.weight and model.readout.bias is None
    assert torch.equal(model(TOKENS), model.eval()(TOKENS)) is False
    with pytest.raises(ValueError, match=r"the tied table has shape \(11, 4\), expected \(11, 5\)"):
        built(tied=True)
