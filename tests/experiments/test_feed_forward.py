"""The feed-forward layer: Jacobians of known layers, the functions of bits, and a verdict for each outcome."""

import pytest
import torch
from torch import nn

from regard.experiments.feed_forward import (
    DEEPER,
    DEPTHS,
    FULL_SYSTEM,
    WIDER,
    BitModel,
    block_norms,
    draw,
    functions_of,
    judge,
    off_diagonal,
    train_and_evaluate,
)
from regard.experiments.lib.sizes import equal_sizes
from regard.experiments.lib.small_transformer import seeded
from regard.tasks import count_parameters

LARGEST = {"feed-forward": 0.0, "self-attention": 0.3}


def accuracies_of(**changes):
    values = {
        FULL_SYSTEM: [[1.0, 1.0, 1.0], [0.99, 1.0, 1.0], [1.0, 1.0, 1.0]],
        WIDER: [[0.9, 1.0, 1.0], [0.92, 1.0, 1.0], [0.91, 1.0, 1.0]],
        DEEPER: [[0.6, 1.0, 1.0], [0.7, 1.0, 1.0], [0.65, 1.0, 1.0]],
    }
    return values | changes


def test_such_numbers_confirm_the_claim():
    holds, verdict = judge(LARGEST, accuracies_of())
    assert holds is True
    assert "still learned as well" in verdict.en


@pytest.mark.parametrize(
    ("largest", "changes", "expected", "sentence"),
    [
        (LARGEST | {"feed-forward": 1e-9}, {}, False, "not position-wise"),
        (LARGEST, {WIDER: [[1.0, 1.0, 1.0]] * 3}, False, "not worse"),
        (LARGEST, {DEEPER: [[0.6, 0.8, 1.0]] * 3}, False, "learned worse too"),
        (LARGEST, {DEEPER: [[0.5, 1.0, 1.0], [1.0, 1.0, 1.0], [1.0, 1.0, 1.0]]}, None, "worse, but within the spread"),
    ],
)
def test_each_part_may_fail_or_stay_open(largest, changes, expected, sentence):
    holds, verdict = judge(largest, accuracies_of(**changes))
    assert holds is expected
    assert sentence in verdict.en


def test_blocks_of_known_layers():
    inputs = torch.randn(4, 3)
    torch.testing.assert_close(block_norms(lambda states: 2 * states, inputs), 2 * 3**0.5 * torch.eye(4))
    # each output is the mean of all positions
    mean = block_norms(lambda states: states.mean(dim=0, keepdim=True).expand(4, 3), inputs)
    torch.testing.assert_close(mean, torch.full((4, 4), 3**0.5 / 4))
    assert off_diagonal(mean) == pytest.approx(3**0.5 / 4)
    # a layer that takes the position before is not position-wise
    assert off_diagonal(block_norms(lambda states: states.roll(1, dims=0), inputs)) > 1
    assert off_diagonal(block_norms(nn.Linear(3, 3), inputs)) == 0.0


def test_functions_of_bits():
    bits = torch.ones(1, 2, 8)
    bits[0, 0, :5] = torch.tensor([-1.0, 1.0, 1.0, -1.0, -1.0])
    expected = torch.tensor([[[-1.0, 1.0, -1.0], [1.0, -1.0, -1.0]]])
    assert torch.equal(functions_of(bits), expected)
    with seeded(0):
        # at the first position a bit times itself is 1
        assert functions_of(draw(2000, 6))[:, 1:].mean(dim=(0, 1)).abs().max() < 0.05


def test_a_short_training_learns_to_copy_and_systems_have_one_size():
    assert train_and_evaluate(0, FULL_SYSTEM, 4, steps=60, length=6)[2] > 0.8
    sizes = equal_sizes(BitModel, list(DEPTHS), reference=FULL_SYSTEM, size=8)
    counts = [count_parameters(BitModel(name, size)) for name, size in sizes.items()]
    assert max(counts) < 1.1 * min(counts)
