"""Distance: paths are measured, the task has the symbol where it says, and the verdict follows the numbers."""

import pytest
import torch
from torch import nn

from regard.experiments.distance import MarkedSymbols, build, judge
from regard.experiments.lib.sequence_layers import LAYERS, path_length
from regard.experiments.lib.small_transformer import seeded

REACHES = {"MLP": [True, False], "CNN": [True, False], "RNN": [True] * 2, "LSTM": [True] * 2, "Attention": [True] * 2}


def results_of(**changes):
    accuracies = {
        "MLP": [[1.0, 0.12], [0.99, 0.13], [1.0, 0.12]],
        "CNN": [[1.0, 0.12], [0.98, 0.11], [1.0, 0.12]],
        "RNN": [[0.9, 0.3], [0.95, 0.4], [0.92, 0.35]],
        "LSTM": [[1.0, 0.98], [1.0, 0.99], [1.0, 1.0]],
        "Attention": [[1.0, 1.0], [0.99, 0.99], [1.0, 1.0]],
    }
    return {"copy": accuracies | changes}


def test_the_claim_holds_and_the_lstm_is_reported():
    holds, verdict = judge(results_of(), REACHES, chance=0.125)
    assert holds
    assert "a loss; the LSTM" in verdict.en
    assert "no clear loss; attention" in verdict.en


@pytest.mark.parametrize(
    ("changes", "sentence"),
    [
        ({"RNN": [[0.9, 0.9], [0.95, 0.94], [0.92, 0.92]]}, "no loss"),
        ({"Attention": [[1.0, 0.3], [0.99, 0.4], [1.0, 0.2]]}, "not alike at every distance"),
        ({"Attention": [[0.13, 0.12], [0.12, 0.12], [0.12, 0.12]]}, "not alike at every distance"),
        ({"CNN": [[1.0, 0.8], [1.0, 0.9], [1.0, 0.8]]}, "at most 0.83"),
    ],
)
def test_each_part_of_the_claim_may_fail(changes, sentence):
    holds, verdict = judge(results_of(**changes), REACHES, chance=0.125)
    assert holds is False
    assert sentence in verdict.en


def test_a_fall_within_the_spread_decides_nothing():
    varying = results_of(RNN=[[0.9, 0.1], [0.9, 0.95], [0.9, 0.95]])
    holds, verdict = judge(varying, REACHES, chance=0.125)
    assert holds is None
    assert "within the spread" in verdict.en
    # another task may decide
    assert judge(varying | {"recall": results_of()["copy"]}, REACHES, chance=0.125)[0] is True


def test_paths_are_n_over_k_and_n_and_1():
    with seeded(0):
        paths = {name: [path_length(make, distance) for distance in (1, 4, 12)] for name, make in LAYERS.items()}
    assert paths == {
        "MLP": [1, 1, None],
        # two positions further with each layer of kernel 3
        "CNN": [1, 2, 6],
        # the state at the input itself, and one per position after it
        "RNN": [2, 5, 13],
        "LSTM": [2, 5, 13],
        "Attention": [1, 1, 1],
    }
    assert path_length(LAYERS["CNN"], 12, max_layers=5) is None


@pytest.mark.parametrize("name", LAYERS)
def test_the_results_end_in_the_output_and_no_output_depends_on_the_future(name):
    with seeded(0):
        layers = LAYERS[name](size=4, num_layers=2).eval()
        inputs = torch.randn(2, 6, 4)
        changed = inputs.clone()
        changed[:, -1] += 1
        outputs = layers(inputs)
        torch.testing.assert_close(layers.sequence_of_results(inputs)[0], outputs[:, -1])
        torch.testing.assert_close(layers(changed)[:, :-1], outputs[:, :-1])
        assert not torch.equal(layers(changed)[:, -1], outputs[:, -1])


@pytest.mark.parametrize("num_keys", [1, 3])
def test_the_symbol_asked_for_lies_at_the_distance(num_keys):
    task = MarkedSymbols(num_symbols=5, num_keys=num_keys, length=9)
    with seeded(0):
        ids, symbols = task.draw(50, 4)
        anywhere, _ = task.draw(2000)
    key = ids[:, -1] - 5 * (1 + num_keys)
    torch.testing.assert_close(ids[:, 4], 5 * (1 + key) + symbols)
    assert (((ids >= 5) & (ids < 5 * (1 + num_keys))).sum(dim=1) == num_keys).all()
    assert anywhere.max() < task.vocab_size
    marked = ((anywhere[:, :-1] >= 5).double().mean(dim=0) - num_keys / 8).abs().max()
    assert marked < 0.05


def test_models_have_an_output_per_symbol():
    task = MarkedSymbols(num_symbols=5, num_keys=2, length=6)
    for name in LAYERS:
        model = build(task, name, 4)
        assert isinstance(model, nn.Module)
        assert model(task.draw(2)[0]).shape == (2, 6, 5)
