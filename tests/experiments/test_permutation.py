"""Permutation: equivariant without positions, and not with any."""

import pytest
import torch

from regard.experiments import permutation
from regard.experiments.permutation import (
    MEMORIES,
    ROUNDING,
    SCHEMES,
    Scheme,
    Shape,
    deviation,
    judge,
    memory_deviation,
)

SHAPE = Shape(hidden_size=16, num_heads=2, length=8)
SMALL = {"repeats": 3, "hidden_size": 16, "num_heads": 2, "length": 8}
WITH_POSITIONS = [name for name in SCHEMES if name != "none"]


def test_the_claim_holds_without_positions():
    finding = permutation.run(**SMALL)
    assert finding.holds
    assert "5 of 5 other schemes break it" in finding.verdict.en
    for kind, names in (("self-attention", SCHEMES), ("cross-attention", MEMORIES)):
        assert {row["positions"]: row["equivariant"] for row in finding.rows if row["attention"] == kind} == {
            name: "yes" if name == "none" else "no" for name in names
        }
    assert "it reads a set" in finding.verdict.en


@pytest.mark.parametrize("name", WITH_POSITIONS)
def test_the_claim_fails_where_positions_are_added(name):
    finding = permutation.run(**SMALL, bare=name, schemes=("alibi" if name == "learned" else "learned", name))
    assert not finding.holds
    assert "is not permutation-equivariant" in finding.verdict.en
    assert deviation(SCHEMES[name](SHAPE), SHAPE, torch.randperm(8).flip(0)) > 1e-3


def test_a_scheme_without_positions_does_not_break_equivariance(monkeypatch):
    monkeypatch.setitem(SCHEMES, "idle", lambda shape: Scheme(added=torch.nn.Identity()))
    finding = permutation.run(**SMALL, schemes=("none", "idle", "rotary"))
    assert not finding.holds
    assert "1 of 2 other schemes break it" in finding.verdict.en


def test_the_identity_permutation_changes_no_scheme():
    for name in SCHEMES:
        assert deviation(SCHEMES[name](SHAPE), SHAPE, torch.arange(8)) < ROUNDING


def test_cross_attention_reads_a_set_unless_its_memory_has_positions():
    order = torch.randperm(8).flip(0)
    assert memory_deviation(None, SHAPE, order) < ROUNDING
    for name in ("learned", "sinusoidal"):
        assert memory_deviation(SCHEMES[name](SHAPE).added, SHAPE, order) > 1e-3
    assert memory_deviation(SCHEMES["learned"](SHAPE).added, SHAPE, torch.arange(8)) < ROUNDING


@pytest.mark.parametrize("memory", [{"none": 0.2, "sinusoidal": 0.5}, {"none": 0.0, "sinusoidal": 0.0}])
def test_a_memory_whose_order_counts_or_never_counts_refutes_the_claim(memory):
    deviations = {"none": [1e-16, 2e-16], "learned": [0.3, 0.4]}
    assert judge(deviations, {"none": [1e-16, 1e-16], "sinusoidal": [0.5, 0.6]}, "none")[0]
    holds, verdict = judge(deviations, {name: [value, value] for name, value in memory.items()}, "none")
    assert not holds
    assert ("does not read a set" in verdict.en) is (memory["none"] > 0)
