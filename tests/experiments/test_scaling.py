"""Scaling: the unscaled softmax saturates, the scaled one does not."""

import pytest
import torch

from regard.attention.scores import Dot, ScaledDot
from regard.experiments import scaling

SMALL = {"repeats": 3, "sizes": (4, 64, 1024), "num_queries": 64}


def test_the_claim_holds():
    finding = scaling.run(**SMALL)
    assert finding.holds
    last = {row["score"]: row for row in finding.rows[-2:]}
    assert last["dot"]["largest weight"].mean > 0.9 > 0.3 > last["scaled dot"]["largest weight"].mean
    assert last["dot"]["variance"].mean == pytest.approx(1024, rel=0.1)


def test_scaled_scores_in_the_place_of_unscaled_do_not_saturate():
    finding = scaling.run(**SMALL, unscaled=ScaledDot())
    assert not finding.holds
    assert "does not saturate" in finding.verdict.en
    assert "not as claimed" in finding.verdict.en


def test_unscaled_scores_in_the_place_of_scaled_do_not_stay_constant():
    finding = scaling.run(**SMALL, scaled=Dot())
    assert not finding.holds
    assert "is not stable either" in finding.verdict.en
    assert "the unscaled softmax saturates" in finding.verdict.en


def test_equal_scores_have_known_statistics():
    class Nothing(Dot):
        def forward(self, queries, keys):
            return super().forward(queries, keys) * 0

    variance, largest, entropy, gradient = scaling.observe(Nothing(), 8, num_queries=16, num_keys=32)
    assert variance == 0
    assert largest == pytest.approx(1 / 32)
    assert entropy == pytest.approx(torch.tensor(32.0).log().item())
    assert 0 < gradient < 1
