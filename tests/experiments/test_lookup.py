"""Looking up by content or by position: dynamic against fixed weights, and separate against shared projections."""

import pytest
import torch

from regard.attention import MultiHeadAttention
from regard.experiments import dynamic_weights, separate_values
from regard.experiments.dynamic_weights import PositionScores, kinds
from regard.experiments.lib.lookup import LookupResult, LookupSystem, LookupTask
from regard.experiments.lib.small_transformer import seeded
from regard.experiments.separate_values import FORMS

TASK = LookupTask(length=5, num_values=3)
CONTENT = {"dynamic": 0.95, "learned": 0.4, "random": 0.3, "uniform": 0.3}
POSITION = {"dynamic": 0.99, "learned": 0.99, "random": 0.3, "uniform": 0.3}


def runs_of(value, noise=(0.0, 0.001, -0.001)):
    return [LookupResult(parameters=1000, accuracy=value + one) for one in noise]


def results_of(content=CONTENT, position=POSITION):
    both = {"content": content, "position": position}
    return {(question, name): runs_of(value) for question, by in both.items() for name, value in by.items()}


def test_the_answers_are_the_values_of_the_requested_key_and_of_the_mirrored_position():
    with seeded(0):
        tokens = TASK.draw(10)
    for row in range(10):
        by_key = dict(zip(tokens.keys[row].tolist(), tokens.values[row].tolist(), strict=True))
        assert [by_key[key] for key in tokens.requests[row].tolist()] == tokens.answers["content"][row].tolist()
        assert tokens.values[row].tolist()[::-1] == tokens.answers["position"][row].tolist()


def test_dynamic_weights_are_judged_by_both_questions():
    judge = dynamic_weights.judge
    holds, verdict = judge(results_of())
    assert holds is True, verdict
    assert "fixed weights are as good" in verdict.en
    # fixed weights that answer by content
    holds, verdict = judge(results_of(content=CONTENT | {"learned": 0.99}))
    assert holds is False
    assert "dynamic weights are clearly worse than fixed ones" in verdict.en
    # fixed weights that do not even answer by position
    holds, verdict = judge(results_of(position=POSITION | {"learned": 0.7}))
    assert holds is False
    assert "fixed weights are clearly worse" in verdict.en
    # within the margin they are as good, even if clearly different
    assert judge(results_of(position=POSITION | {"learned": 0.98}))[0] is True
    assert judge(results_of(content=CONTENT | {"learned": 0.95}))[0] is None


def test_fixed_weights_learn_positions_and_not_contents():
    dynamic = LookupSystem(task=TASK, make=MultiHeadAttention, num_heads=2, head_size=8)
    learned = dynamic.of_equal_size(kinds(5)["learned"])
    accuracy = {
        (question, name): system.train_and_test(0, question, steps=150).accuracy
        for question, name, system in (
            ("content", "dynamic", dynamic),
            ("content", "learned", learned),
            ("position", "learned", learned),
        )
    }
    assert accuracy["content", "dynamic"] > accuracy["content", "learned"] + 0.2
    assert accuracy["position", "learned"] > 0.9


def test_fixed_scores_are_a_score_that_ignores_the_tokens():
    score = PositionScores(torch.randn(2, 3, 3), learned=True)
    first, second = (score(torch.randn(4, 2, 3, 5), score.prepare(torch.randn(4, 2, 3, 5))) for _ in range(2))
    assert first.shape == (4, 2, 3, 3)
    assert torch.equal(first, second)
    assert isinstance(score.lower(torch.zeros(1), torch.zeros(1)), str)
    assert not any(
        parameter.requires_grad for parameter in PositionScores(torch.zeros(1, 1, 1), learned=False).parameters()
    )


@pytest.mark.parametrize("make", [*kinds(5).values(), *FORMS.values()])
def test_all_systems_have_about_equal_parameters(make):
    separate = LookupSystem(task=TASK, make=MultiHeadAttention, num_heads=1, head_size=24)
    assert separate.of_equal_size(make).parameters == pytest.approx(separate.parameters, rel=0.06)


def test_the_forms_are_what_they_are_called():
    attentions = {name: make(8, 2) for name, make in FORMS.items()}
    states = torch.randn(1, 4, 8)
    memories = {name: attention.prepare_memory(states) for name, attention in attentions.items()}
    plain = states.unflatten(-1, (2, 4)).transpose(1, 2)
    assert torch.equal(memories["K = V = X"].keys, plain)
    for name, memory in memories.items():
        assert torch.equal(memory.keys, memory.values) is (name != "separate")


def forms_of(*by_head):
    return {
        (heads, name): runs_of(value)
        for heads, by in zip((1, 4), by_head, strict=True)
        for name, value in zip(FORMS, by, strict=True)
    }


def test_separate_values_are_judged_for_every_number_of_heads():
    judge = separate_values.judge
    holds, verdict = judge(forms_of((0.5, 0.6, 0.9), (0.5, 0.6, 0.9)))
    assert holds is True, verdict
    holds, verdict = judge(forms_of((0.9, 0.9, 0.9), (0.5, 0.6, 0.9)))
    assert holds is False
    assert (
        "with 1 head K = V = X 0.900 ± 0.001, one projection 0.900 ± 0.001, separate 0.900 ± 0.001: no better"
        in verdict.en
    )
    assert "separate 0.900 ± 0.001: clearly better." in verdict.en
    results = forms_of((0.5, 0.6, 0.9), (0.5, 0.6, 0.9))
    results[4, "separate"] = runs_of(0.52, noise=(-0.4, 0.0, 0.4))
    assert judge(results)[0] is None
