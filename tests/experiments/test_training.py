"""The training loop of the experiments."""

import pytest
import torch
from torch import nn

from regard.contracts import CancelledError, cancellable
from regard.experiments import EXPERIMENTS
from regard.experiments.lib.training import fit


def test_a_line_is_fitted_and_the_loss_of_every_step_returned():
    torch.manual_seed(0)
    model, x = nn.Linear(1, 1), torch.linspace(-1, 1, 32)[:, None]
    losses = fit(model, lambda step: (model(x) - 3 * x + 1).pow(2).mean(), steps=300, learning_rate=0.1)
    assert len(losses) == 300
    assert losses[-1] < 1e-3 < losses[0]
    assert not model.training
    torch.testing.assert_close(model.weight.item(), 3.0, rtol=0, atol=0.05)


def test_frozen_parameters_stay_and_the_step_is_passed():
    model, steps = nn.Linear(1, 1), []
    model.bias.requires_grad_(False)
    before = model.bias.clone()

    def loss_of(step):
        steps.append(step)
        return model(torch.ones(1, 1)).sum()

    fit(model, loss_of, steps=1)
    assert steps == [0]
    assert torch.equal(model.bias, before)


def test_a_training_is_cancelled_between_two_steps():
    model, steps = nn.Linear(1, 1), []

    def loss_of(step):
        steps.append(step)
        return model(torch.ones(1, 1)).sum()

    with cancellable(lambda: len(steps) == 3), pytest.raises(CancelledError):
        fit(model, loss_of, steps=100)
    assert steps == [0, 1, 2]


@pytest.mark.parametrize("name", EXPERIMENTS)
def test_every_experiment_can_be_cancelled(name):
    with cancellable(lambda: True), pytest.raises(CancelledError):
        EXPERIMENTS[name].run(seed=0)
