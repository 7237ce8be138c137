"""Pooling: the order holds where there is a curve, and is not claimed where there is none."""

import pytest
import torch
from torch.nn import functional

from regard.experiments import pooling
from regard.experiments.lib.small_transformer import seeded

SMALL = {"repeats": 8, "steps": 80, "sizes": (50, 400, 3200)}


def test_the_claim_holds_on_the_curve_of_the_text():
    finding = pooling.run(**SMALL)
    assert finding.holds
    errors = {row["pooling"]: row["error"].mean for row in finding.rows[:3]}
    assert errors["average"] > errors["fixed kernel"] > errors["learned kernel"]
    assert "only with a bandwidth that shrinks" in finding.verdict.en


def test_on_noise_no_kernel_is_better():
    finding = pooling.run(**SMALL, truth=torch.zeros_like)
    assert not finding.holds
    assert "does not clearly beat the average" in finding.verdict.en


def test_where_the_fixed_width_is_right_learning_does_not_help():
    # a small slope: the fixed bandwidth of 1 is nearly optimal
    finding = pooling.run(**SMALL, truth=lambda x: 0.2 * x)
    assert not finding.holds
    assert "A kernel beats the average" in finding.verdict.en
    assert "learning its width does not clearly help" in finding.verdict.en


def test_the_three_forms_equal_the_formula():
    with seeded(0):
        sample = pooling.CurveSample.draw(pooling.sine_and_power, 20, 0.5)
    at = torch.linspace(0, 5, 7)[:, None]
    for width in (0.0, 1.0, 2.5):
        weights = torch.softmax(-((at - sample.x.T) ** 2) * width**2 / 2, dim=-1)
        torch.testing.assert_close(pooling.predict(sample, at, width), weights @ sample.y)
    torch.testing.assert_close(pooling.predict(sample, at, 0.0), sample.y.mean().expand(7, 1))


def test_the_learned_width_minimises_the_leave_one_out_loss():
    with seeded(0):
        sample = pooling.CurveSample.draw(pooling.sine_and_power, 50, 0.5)
        learned = pooling.learn_width(sample, steps=300)

    def left_out(width):
        scores = -((sample.x - sample.x.T) ** 2) * width**2 / 2
        weights = scores.masked_fill(torch.eye(50, dtype=torch.bool), -torch.inf).softmax(dim=-1)
        return functional.mse_loss(weights @ sample.y, sample.y).item()

    grid = torch.linspace(0.5, 8, 151).tolist()
    assert learned == pytest.approx(min(grid, key=left_out), abs=0.1)
