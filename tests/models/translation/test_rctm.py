"""RCTM I and II against their formulas, one row at a time."""

from dataclasses import replace

import pytest
import torch
from torch import nn

from regard.contracts import PaddedTokens
from regard.models.translation import RCTM, RCTMConfig

CONFIG = RCTMConfig(source_vocab_size=11, target_vocab_size=13, embedding_size=4, hidden_size=5, max_width=4)


def make_model(**changes):
    model = RCTM(replace(CONFIG, **changes)).double().eval()
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
    assert model.encode(PaddedTokens(ids, torch.tensor([length]))).source.columns[0, 0].allclose(expected)


def test_folds_of_a_batch_equal_folds_alone():
    model = make_model()
    rows = [torch.randint(0, 11, (length,)).tolist() for length in (14, 1, 2, 3, 4, 5, 6, 7, 8, 10, 11)]
    together = model.encode(PaddedTokens.from_lists(rows)).source.columns[:, 0]
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
    with pytest.raises(ValueError, match="ngram_width is 1"):
        RCTMConfig(ngram_width=1)
    with pytest.raises(ValueError, match="length_ratio is 0"):
        RCTMConfig(length_ratio=0.0)


def wide(columns, kernel):
    """Row r of the result at position p: sum_j kernel[r, j] columns[r, p - j], where that column exists."""
    rows, width = kernel.shape
    unfolded = torch.zeros(rows, columns.shape[1] + width - 1, dtype=columns.dtype)
    for position in range(columns.shape[1]):
        unfolded[:, position : position + width] += kernel * columns[:, position, None]
    return unfolded


def columns_of_second(model, ids, ratio):
    """RCTM II for one source: fold to 4-grams, interpolate, transfer, unfold."""
    sentences = model.sentence_model
    columns = model.source_embedding.weight[ids].T
    # a source of fewer than four words has one 4-gram
    columns = torch.cat([columns, torch.zeros(4, max(4 - len(ids), 0), dtype=columns.dtype)], dim=1)
    for kernel in sentences.folds:
        columns = torch.tanh(narrow(columns, kernel))
    sources, targets = columns.shape[1], max(round(len(ids) * ratio), 4) - 3
    stretched = []
    for target in range(targets):
        position = min(max((target + 0.5) * sources / targets - 0.5, 0), sources - 1)
        left = int(position)
        right = min(left + 1, sources - 1)
        stretched.append(columns[:, left] + (position - left) * (columns[:, right] - columns[:, left]))
    columns = sentences.transfer.weight @ torch.stack(stretched, dim=1)
    for kernel in reversed(sentences.unfolds):
        columns = torch.tanh(wide(columns, kernel))
    return model.sentence_proj.weight @ columns


@pytest.mark.parametrize("ratio", [1.0, 1.4, 0.7])
def test_the_second_model_has_a_column_for_every_expected_position(ratio):
    model = make_model(source_model="ngrams", activation="tanh", length_ratio=ratio)
    rows = [torch.randint(0, 11, (length,)).tolist() for length in (9, 1, 3, 4, 5, 12)]
    source = model.encode(PaddedTokens.from_lists(rows)).source
    for row, columns, length in zip(rows, source.columns, source.lengths.tolist(), strict=True):
        assert length == max(round(len(row) * ratio), 4)
        assert columns[:length].T.allclose(columns_of_second(model, row, ratio), atol=1e-6)


def test_each_step_of_the_second_model_reads_its_column_and_later_ones_the_last():
    model = make_model(source_model="ngrams", activation="tanh")
    ids, target = [4, 7, 5, 2, 9], PaddedTokens.from_lists([[1, 9, 12, 3, 3, 4, 8]])
    columns = columns_of_second(model, ids, 1.0).T
    state, logits = torch.zeros(5, dtype=torch.float64), []
    for position, token in enumerate(target.ids[0]):
        word = model.word_proj(model.target_embedding.weight[token])
        state = torch.tanh(word + model.state_proj.weight @ state + columns[min(position, 4)])
        logits.append(model.readout.weight @ state + model.readout.bias)
    assert model(PaddedTokens.from_lists([ids]), target)[0].allclose(torch.stack(logits), atol=1e-6)


def test_the_control_has_no_source():
    model = make_model(source_model="none")
    target = PaddedTokens.from_lists([[1, 9, 12]])
    one, other = (model(PaddedTokens.from_lists([ids]), target) for ids in ([4, 7, 5, 2], [3, 2]))
    assert one.equal(other)
    assert not any("source" in name or "sentence" in name for name, _ in model.named_parameters())


def test_kernels_begin_as_one_tap_per_row_and_the_recurrence_orthogonal():
    torch.manual_seed(0)
    model = RCTM(replace(CONFIG, embedding_size=64, hidden_size=32, activation="tanh"))
    for kernel in (*model.sentence_model.middle, *model.sentence_model.last):
        assert (kernel > 0.6).sum(dim=1).eq(1).all()
        assert (kernel.abs() < 0.5).sum(dim=1).eq(kernel.shape[1] - 1).all()
    recurrence = model.state_proj.weight
    assert (recurrence @ recurrence.T).allclose(torch.eye(32), atol=1e-5)
    # with the paper's sigmoid the taps are four times as large
    sigmoid = RCTM(replace(CONFIG, embedding_size=64, hidden_size=32))
    assert (sigmoid.sentence_model.middle[0] > 2.5).sum(dim=1).eq(1).all()


def test_the_sources_words_reach_its_column():
    """With dense kernels the first words are lost; with taps every word moves the column."""
    torch.manual_seed(0)
    model = RCTM(replace(CONFIG, embedding_size=256, hidden_size=32, max_width=15, activation="tanh"))
    ids = torch.randint(1, 11, (1, 12))
    column = model.encode(PaddedTokens(ids, torch.tensor([12]))).source.columns[0, 0]
    for position in range(12):
        changed = ids.clone()
        changed[0, position] = 0
        other = model.encode(PaddedTokens(changed, torch.tensor([12]))).source.columns[0, 0]
        assert (other - column).norm() > 0.01 * column.norm()
