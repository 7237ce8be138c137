"""Embedding scale: it matches tables of variance 1/d and no others."""

import math

import pytest

from regard.experiments import embedding_scale

SMALL = {"sizes": (32, 256), "vocab_size": 200, "num_positions": 64}


def test_the_claim_holds_and_the_verdict_states_the_factor():
    finding = embedding_scale.run(**SMALL)
    assert finding.holds
    last = finding.rows[-1]
    assert last["embedding"].mean == pytest.approx(1, rel=0.02)
    assert last["times sqrt(d)"].mean == pytest.approx(16, rel=0.02)
    assert last["position"].mean == pytest.approx(math.sqrt(128), rel=1e-5)
    assert last["ratio after"] == pytest.approx(math.sqrt(2), rel=0.02)
    assert "0.707 sqrt(d), exactly sqrt(d/2) and not sqrt(d)" in finding.verdict.en


def test_a_table_of_unit_entries_needs_no_scale_and_does_not_match_with_it():
    finding = embedding_scale.run(**SMALL, deviation=lambda size: 1.0)
    assert not finding.holds
    assert "Unscaled it does not drown; scaled it does not match" in finding.verdict.en


def test_an_odd_size_is_not_called_exact():
    finding = embedding_scale.run(sizes=(33,), vocab_size=50, num_positions=16)
    assert "exactly" not in finding.verdict.en
