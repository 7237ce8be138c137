"""MLP against its formula."""

import pytest
import torch

from regard.contracts import EOS
from regard.models.language_modeling import MLPLanguageConfig, MLPLanguageModel
from tests.models.language_modeling.by_hand import ROWS, TOKENS, VOCAB, randomised


def make_model(**more):
    return randomised(MLPLanguageModel(MLPLanguageConfig(vocab_size=VOCAB, embedding_size=4, hidden_size=5, **more)))


@pytest.mark.parametrize("direct", [False, True])
@pytest.mark.parametrize("order", [2, 3, 5])
def test_by_hand(order, direct):
    model = make_model(order=order, direct=direct)
    logits = model(TOKENS)
    for row, ids in enumerate(ROWS):
        text = [EOS] * (order - 2) + ids
        for place in range(len(ids)):
            context = torch.cat([model.embedding.weight[token] for token in text[place : place + order - 1]])
            features = torch.tanh(model.hidden.weight @ context + model.hidden.bias)
            expected = model.readout.weight[:, :5] @ features + model.readout.bias
            if direct:
                expected = expected + model.readout.weight[:, 5:] @ context
            assert logits[row, place].allclose(expected, atol=1e-10)


def test_the_state_is_the_last_words():
    model = make_model(order=4)
    assert model.start(2).tolist() == [[EOS] * 3] * 2
    assert model.features(TOKENS[:, :2], model.start(2)).state.tolist() == [[EOS, 5, 6], [EOS, 2, 4]]
    assert model.features(TOKENS, model.start(2)).state.tolist() == [row[-3:] for row in ROWS]


@pytest.mark.unchecked
def test_an_order_of_one_is_refused():
    with pytest.raises(ValueError, match=r"order is 1, expected 2 or more"):
        make_model(order=1)
