"""Permutation: equivariant without positions, and not with any."""

import pytest
import torch

from regard.experiments import permutation
from regard.experiments.permutation import ROUNDING, SCHEMES, Scheme, Shape, deviation

SHAPE = Shape(hidden_size=16, num_heads=2, length=8)
SMALL = {"repeats": 3, "hidden_size": 16, "num_heads": 2, "length": 8}
WITH_POSITIONS = [name for name in SCHEMES if name != "none"]


def test_the_claim_holds_without_positions():
    finding = permutation.run(**SMALL)
    assert finding.holds
    assert "5 of 5 other schemes break it" in finding.verdict.en
    assert {row["positions"]: row["equivariant"] for row in finding.rows} == {
        name: "yes" if name == "none" else "no" for name in SCHEMES
    }


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
