"""The CNN takes the maximum over the windows that overlap a word."""

import pytest
import torch
from torch import nn

from regard.contracts import PaddedTokens
from regard.models.text_classification import CNN, CNNConfig


def make(**more):
    config = CNNConfig(**{"vocab_size": 9, "num_classes": 2, "embedding_size": 4, "num_maps": 3, "dropout": 0.0} | more)
    model = CNN(config).double().eval()
    for parameter in model.parameters():
        nn.init.normal_(parameter, std=0.5)
    return model


@torch.no_grad()
@pytest.mark.parametrize("words", [[4, 5, 6, 7, 8, 4], [5], [6, 7]], ids=len)
def test_is_the_formula(words):
    model, features = make(widths=(2, 4)), []
    for width, filters in zip((2, 4), model.filters, strict=True):
        nothing = [torch.zeros(4, dtype=torch.float64)] * (width - 1)
        places = [*nothing, *model.embedding.weight[words], *nothing]
        for number in range(3):
            weight, bias = filters.weight[number], filters.bias[number]
            answers = [
                torch.relu(sum(weight[:, i] @ places[first + i] for i in range(width)) + bias)
                for first in range(len(words) + width - 1)
            ]
            features.append(max(answers))
    expected = model.output(torch.stack(features))
    # in a batch with a longer sentence, which must have no effect
    logits = model(PaddedTokens.from_lists([words, [4] * 11])).logits[0]
    assert logits.allclose(expected, atol=1e-12)


def test_a_sentence_without_words_gives_the_bias():
    model = make()
    assert model(PaddedTokens.from_lists([[], [4, 5]])).logits[0].allclose(model.output.bias, atol=1e-12)


@pytest.mark.parametrize("widths", [(), (3, 0)])
def test_widths_are_checked(widths):
    with pytest.raises(ValueError, match=r"widths are \(.*expected one or more, each at least 1"):
        make(widths=widths)
