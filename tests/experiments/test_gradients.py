"""Gradients: the measurement is that of a known network, and each part of the claim may fail."""

import math

import pytest
import torch

from regard.experiments import gradients
from regard.experiments.gradients import gradient_norms, judge, over_depth, over_distance
from regard.experiments.lib.small_transformer import seeded

DISTANCES, DEPTHS = (1, 2, 4, 8), (1, 4)
DYING = [[0.0, -1.0, -3.0, -7.0], [0.0, -1.1, -3.1, -7.2]]
STAYING = [[0.0, 0.1, 0.0, 0.1], [0.0, 0.0, 0.1, -0.1]]


def judged(**changes):
    positions = {"RNN": DYING, "LSTM": STAYING, "Attention": STAYING}
    layers = {
        "plain": [[0.0, -5.0], [0.0, -5.1]],
        "residual": [[0.0, 0.1], [0.0, 0.2]],
        "residual, pre-norm": [[0.0, 0.1], [0.0, 0.0]],
    }
    for name, values in changes.items():
        (positions if name in positions else layers)[name] = values
    return judge(positions, layers, DISTANCES, DEPTHS)


def test_the_claim_holds_for_networks_at_initialisation():
    finding = gradients.run(seeds=3, distances=(1, 8, 16, 32), depths=(1, 16))
    assert finding.holds
    rows = {row["network"]: row["log10, end"].mean for row in finding.rows}
    # the gates of the LSTM slow the decay down
    assert rows["RNN"] < 2 * rows["LSTM"] < rows["Attention"]


@pytest.mark.parametrize("name", ["RNN", "plain"])
def test_a_recurrence_or_a_stack_that_keeps_its_gradient_refutes_the_claim(name):
    assert judged()[0] is True
    holds, verdict = judged(**{name: STAYING if name == "RNN" else [[0.0, -0.1], [0.0, 0.1]]})
    assert holds is False
    assert "(kept)" in verdict.en


@pytest.mark.parametrize("name", ["Attention", "residual"])
def test_attention_or_residual_connections_that_lose_it_refute_the_claim(name):
    assert judged(**{name: DYING if name == "Attention" else [[0.0, -5.0], [0.0, -5.2]]})[0] is False


def test_a_sudden_fall_is_not_exponential_and_a_wide_spread_decides_nothing():
    holds, verdict = judged(RNN=[[0.0, 0.0, 0.0, -5.0], [0.0, 0.0, 0.0, -5.1]])
    assert holds is False
    assert "does not fall exponentially" in verdict.en
    assert judged(plain=[[0.0, -20.0], [0.0, -0.1]])[0] is None


def test_norms_of_a_linear_function_are_known():
    inputs = torch.randn(1, 3, 1, dtype=torch.float64, requires_grad=True)
    weights = torch.tensor([0.25, 0.5, 2.0], dtype=torch.float64)
    with seeded(0):
        norms = gradient_norms((inputs[..., 0] * weights).sum(dim=1), inputs)
    torch.testing.assert_close(norms / norms[-1], weights / 2)


def test_values_are_relative_to_the_first():
    with seeded(0):
        assert over_distance("RNN", size=4, distances=(1, 5))[0] == 0.0
        values = over_depth("plain", size=4, depths=(1, 3))
    assert values[0] == 0.0
    assert math.isfinite(values[1])
