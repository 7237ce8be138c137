"""Dot against cosine: each wins its task, unless both are the same score."""

from functools import partial

import pytest
import torch

from regard.attention.scores import Cosine, ScaledDot
from regard.experiments import dot_against_cosine
from regard.experiments.dot_against_cosine import IMPORTANCE, NOISE, SCALE, SCORES, Answers, Lookup, draw_problem, judge
from regard.experiments.lib.small_transformer import seeded

SMALL = {"repeats": 2, "steps": 15, "spreads": (1.5,)}


def test_each_score_wins_its_task():
    finding = dot_against_cosine.run(**SMALL)
    assert finding.holds, finding.verdict
    assert "dot wins" in finding.verdict.en
    assert "the cosine wins" in finding.verdict.en


@pytest.mark.parametrize("same", [ScaledDot, partial(Cosine, scale=SCALE)])
def test_a_score_does_not_win_against_itself(monkeypatch, same):
    monkeypatch.setitem(SCORES, "scaled dot", same)
    monkeypatch.setitem(SCORES, "cosine", same)
    finding = dot_against_cosine.run(**SMALL)
    assert finding.holds is None
    assert "is not clearly better" in finding.verdict.en


def test_the_verdict_follows_the_numbers():
    def results_of(dot, cosine):
        """Accuracies of both scores, the same for both tasks."""
        runs = {"scaled dot": dot, "cosine": cosine, "cosine, scale 1": cosine}
        return {
            (task, 1.0, name): [Answers(accuracy=value + noise, weight=value + noise) for noise in (0.0, 0.01)]
            for task in (IMPORTANCE, NOISE)
            for name, value in runs.items()
        }

    holds, verdict = judge(results_of(0.9, 0.4), 1.0, 8)
    assert holds is False
    assert "the cosine loses" in verdict.en
    holds, verdict = judge(results_of(0.4, 0.9), 1.0, 8)
    assert holds is False
    assert "dot loses" in verdict.en


def test_the_answer_is_the_longest_or_the_nearest_key():
    with seeded(0):
        importance, noise = (draw_problem(task, 200, spread=1.0, num_keys=8, size=16) for task in (IMPORTANCE, NOISE))
    lengths = importance.keys[:, :4].norm(dim=-1)
    assert torch.equal(importance.answers, lengths.argmax(dim=1))
    cosines = torch.cosine_similarity(noise.queries, noise.keys, dim=-1)
    assert (cosines.argmax(dim=1) == noise.answers).double().mean() > 0.99


def test_cosine_ignores_lengths_and_dot_does_not():
    with seeded(0):
        problem = draw_problem(NOISE, 5, spread=1.0, num_keys=8, size=16)
        equal = type(problem)(problem.queries, torch.nn.functional.normalize(problem.keys, dim=-1), problem.answers)
    for score, ignores in ((Cosine(scale=SCALE), True), (ScaledDot(), False)):
        model = Lookup(score, 16)
        assert torch.allclose(model(problem), model(equal), atol=1e-5) is ignores
