"""N-gram RNN against its formula."""

import pytest
import torch

from regard.models.language_modeling import NGramRNN, NGramRNNConfig
from tests.models.language_modeling.by_hand import ROWS, TOKENS, VOCAB, lstm_outputs, randomised, read_out


def make_model(**more):
    return randomised(NGramRNN(NGramRNNConfig(vocab_size=VOCAB, embedding_size=4, hidden_size=5, **more)))


@pytest.mark.parametrize("order", [2, 3, 4, 5])
def test_by_hand(order):
    model = make_model(order=order)
    logits = model(TOKENS)
    for row, ids in enumerate(ROWS):
        parts = [output.chunk(order - 1) for output in lstm_outputs(model.words, ids)]
        features = []
        for place in range(len(ids)):
            grams = [
                parts[place - ago][ago] if ago <= place else torch.zeros(5, dtype=torch.float64)
                for ago in range(order - 1)
            ]
            features.append(torch.tanh(model.joined.weight @ torch.cat(grams)))
        assert logits[row].allclose(read_out(model, features), atol=1e-10)


def test_the_lstm_has_a_part_for_each_context_word_of_an_n_gram():
    assert make_model(order=4).words.lstm.hidden_size == 15


@pytest.mark.unchecked
def test_an_order_of_one_is_refused():
    with pytest.raises(ValueError, match=r"order is 1, expected 2 or more"):
        make_model(order=1)
