"""Shift: what each system knows follows from its changes, and a system with other knowledge refutes the claim."""

import pytest
import torch
from torch import nn

from regard.attention.positions import Learned
from regard.experiments import shift
from regard.experiments.permutation import Shape
from regard.experiments.shift import CNN, EXPECTED, FILLED, Changes, SmallCNN, judge, knowledge, make_systems

SMALL = {"repeats": 3, "hidden_size": 16, "num_heads": 2, "frame": 16, "block": 6}
ABSOLUTE, RELATIVE, NEITHER = Changes(0.3, 0.4), Changes(1e-16, 0.4), Changes(1e-16, 1e-16)


class PlacedCNN(nn.Module):
    """A convolution with absolute positions."""

    def __init__(self, hidden_size):
        super().__init__()
        self.positions, self.inner = Learned(hidden_size=hidden_size, max_length=64), SmallCNN(hidden_size)

    def forward(self, states, mask):
        return self.inner(self.positions(states), mask)


class PointwiseCNN(nn.Module):
    """A convolution over one position, which knows no order."""

    def __init__(self, hidden_size):
        super().__init__()
        self.inner = nn.Linear(hidden_size, hidden_size)

    def forward(self, states, mask):
        return self.inner(states)


def test_the_claim_holds_and_edges_are_reported():
    finding = shift.run(**SMALL)
    assert finding.holds
    assert {row["system"]: row["knows"] for row in finding.rows} == {**EXPECTED, FILLED: "absolute"}
    assert "7 of 7 are as claimed" in finding.verdict.en


@pytest.mark.parametrize(("model", "known"), [(PlacedCNN, "absolute"), (PointwiseCNN, "neither")])
def test_a_cnn_that_knows_something_else_refutes_it(monkeypatch, model, known):
    monkeypatch.setattr(shift, "SmallCNN", model)
    finding = shift.run(**SMALL)
    assert not finding.holds
    assert finding.rows[0]["knows"] == known
    assert "6 of 7 are as claimed" in finding.verdict.en


def test_knowledge_is_that_of_every_repetition():
    assert knowledge([RELATIVE, RELATIVE]) == "relative only"
    assert knowledge([NEITHER, NEITHER]) == "neither"
    assert knowledge([RELATIVE, ABSOLUTE]) == "absolute"
    assert knowledge([RELATIVE, NEITHER]) == "neither"


def test_the_verdict_names_the_groups():
    one = {"relative only": RELATIVE, "absolute": ABSOLUTE, "neither": NEITHER}
    changes = {name: [one[kind]] * 2 for name, kind in EXPECTED.items()} | {FILLED: [ABSOLUTE] * 2}
    assert judge(changes)[0]
    holds, verdict = judge(changes | {"attention, rotary": [ABSOLUTE] * 2})
    assert not holds
    assert "Absolute: attention, learned; attention, sinusoidal; attention, rotary." in verdict.en


def test_without_a_shift_nothing_changes():
    for name, system in make_systems(Shape(hidden_size=8, num_heads=2, length=12)).items():
        block = torch.randn(12, 8, dtype=torch.float64)
        # a block as large as its frame cannot move, and its own order changes nothing
        changes = Changes.of(system, block, torch.arange(12), 12)
        assert changes.shifted == changes.reordered == 0.0, name


def test_padding_changes_no_output_of_the_cnn():
    system = make_systems(Shape(hidden_size=8, num_heads=2, length=12))[CNN]
    states, mask = torch.randn(1, 12, 8, dtype=torch.float64), torch.arange(12)[None] < 5
    changed = torch.where(mask.unsqueeze(-1), states, 9.0)
    torch.testing.assert_close(system(states, mask)[:, :5], system(changed, mask)[:, :5], rtol=0, atol=0)
