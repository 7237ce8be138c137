"""RCTM I against its formulas: the fold by hand, one row at a time."""

import pytest
import torch
from torch import nn

from regard.contracts import PaddedTokens
from regard.models.translation import RCTM, RCTMConfig

CONFIG = RCTMConfig(source_vocab_size=11, target_vocab_size=13, embedding_size=4, hidden_size=5, max_width=4)


def make_model():
    model = RCTM(CONFIG).double().eval()
    for parameter in model.parameters():
        nn.init.normal_(parameter, std=0.5)
    return model


def narrow(columns, kernel):
    """Row r of the result at place p: sum_j kernel[r, j] columns[r, p + j]."""
    rows, width = kernel.shape
    places = range(columns.shape[1] - width + 1)
    folded = [[sum(kernel[r, j] * columns[r, p + j] for j in range(width)) for p in places] for r in range(rows)]
    return torch.stack([torch.stack(row) for row in folded])


def middle(model, width):
    return model.sentence_model.middle[width - 2]


def last(model, width):
    return model.sentence_model.last[width - 2]


# length -> widths of the middle folds, width of the last one; the widest kernel here is 4
FOLDS = {
    2: ([], 2),
    3: ([2], 2),
    4: ([2], 3),
    5: ([2, 3], 2),
    6: ([2, 3], 3),
    7: ([2, 3], 4),
    8: ([2, 3, 4], 2),
    10: ([2, 3, 4], 4),
    11: ([2, 3, 4, 4], 2),
    14: ([2, 3, 4, 4, 4], 2),
}


def fold(model, columns):
    if columns.shape[1] == 1:
        return columns[:, 0]
    widths, left = FOLDS[columns.shape[1]]
    for width in widths:
        columns = torch.sigmoid(narrow(columns, middle(model, width)))
    assert columns.shape[1] == left
    return narrow(columns, last(model, left))[:, 0]


@pytest.mark.parametrize("length", [1, *FOLDS])
def test_the_fold_equals_its_formula(length):
    model, ids = make_model(), torch.randint(0, 11, (1, length))
    columns = model.source_embedding.weight[ids[0]].T
    expected = model.sentence_proj.weight @ fold(model, columns)
    assert model.encode(PaddedTokens(ids, torch.tensor([length]))).sentence[0].allclose(expected)


def test_folds_of_a_batch_equal_folds_alone():
    model = make_model()
    rows = [torch.randint(0, 11, (length,)).tolist() for length in (14, 1, 2, 3, 4, 5, 6, 7, 8, 10, 11)]
    together = model.encode(PaddedTokens.from_lists(rows)).sentence
    for row, actual in zip(rows, together, strict=True):
        expected = model.sentence_proj.weight @ fold(model, model.source_embedding.weight[row].T)
        assert actual.allclose(expected)


def test_the_source_is_an_input_of_every_state():
    model = make_model()
    source, target = PaddedTokens.from_lists([[4, 7, 5, 2]]), PaddedTokens.from_lists([[1, 9, 12]])
    sentence = fold(model, model.source_embedding.weight[source.ids[0]].T)
    state, logits = torch.zeros(5, dtype=torch.float64), []
    for token in target.ids[0]:
        word = model.target_embedding.weight[token]
        state = torch.sigmoid(
            model.word_proj.weight @ word
            + model.word_proj.bias
            + model.state_proj.weight @ state
            + model.sentence_proj.weight @ sentence
        )
        logits.append(model.readout.weight @ state + model.readout.bias)
    assert model(source, target)[0].allclose(torch.stack(logits))


def test_a_kernel_has_a_width_of_at_least_two():
    with pytest.raises(ValueError, match="max_width is 1"):
        RCTMConfig(max_width=1)
