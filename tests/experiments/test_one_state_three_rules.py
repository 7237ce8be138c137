"""One state, three rules: recall follows the state, and the verdict follows the recall."""

import pytest
import torch

from regard.experiments import one_state_three_rules
from regard.experiments.lib.small_transformer import seeded
from regard.experiments.one_state_three_rules import EMPTY, NUM_QUERIES, RULES, Recalled, RecallTask, draw_recall, judge

NUMBERS = {"RNN": (8, 8), "linear attention": (72, 72), "TTT": (144, 144), "attention": (128, 512)}
RECALL = {"RNN": (0.4, 0.2), "linear attention": (1.0, 0.7), "TTT": (1.0, 0.8), "attention": (1.0, 1.0)}


def results_of(recall=RECALL, numbers=NUMBERS, noise=(0.0, 0.01, -0.01)):
    return {
        (rule, 8): [
            Recalled(
                parameters=1000,
                recall={4: recall[rule][0] + one, 32: recall[rule][1] + one},
                numbers=dict(zip((4, 32), numbers[rule], strict=True)),
            )
            for one in noise
        ]
        for rule in RULES
    }


def test_the_numbers_of_the_claim_hold():
    holds, verdict = judge(results_of(), 8, (4, 32))
    assert holds is True, verdict
    assert "attention clearly more. From 4 to 32" in verdict.en
    assert "it forgets nothing" in verdict.en


@pytest.mark.parametrize(
    ("recall", "numbers"),
    [
        ({"RNN": (1.0, 0.95)}, {}),
        ({"attention": (1.0, 0.5)}, {}),
        ({"TTT": (0.2, 0.1)}, {}),
        ({}, {"attention": (512, 512)}),
        ({}, {"TTT": (72, 144)}),
    ],
)
def test_other_numbers_refute_it(recall, numbers):
    assert judge(results_of(RECALL | recall, NUMBERS | numbers), 8, (4, 32))[0] is False


def test_equal_recall_does_not_decide():
    holds, verdict = judge(results_of(RECALL | {"TTT": RECALL["RNN"]}), 8, (4, 32))
    assert holds is None
    assert "TTT not clearly more" in verdict.en


def test_attention_learns_to_recall_and_an_rnn_of_equal_size_does_not():
    task = RecallTask(pairs=(4, 8), num_symbols=12, num_values=4)
    recalled = {rule: task.train_and_test(0, rule, size, steps=120) for rule, size in (("attention", 16), ("RNN", 13))}
    assert abs(recalled["attention"].parameters - recalled["RNN"].parameters) < 200
    assert recalled["attention"].recall[8] > recalled["RNN"].recall[8] + 0.2


def test_every_key_occurs_once_and_the_answers_are_its_values():
    with seeded(0):
        task = draw_recall(5, pairs=6, num_symbols=9, num_values=3)
    assert task.keys.shape == (5, 6 + NUM_QUERIES)
    for keys, values, answers in zip(task.keys.tolist(), task.values.tolist(), task.answers.tolist(), strict=True):
        stored = dict(zip(keys[:6], values[:6], strict=True))
        assert len(stored) == 6
        assert values[6:] == [EMPTY] * NUM_QUERIES
        assert [stored[key] - 1 for key in keys[6:]] == answers


def test_all_rules_have_equal_parameters_and_only_the_list_grows():
    finding = one_state_three_rules.run(repeats=2, steps=1, sizes=(8,), pairs=(2, 4), num_symbols=8)
    sizes = [row["parameters"] for row in finding.rows]
    assert max(sizes) < 1.15 * min(sizes)
    numbers = {rule: [row["numbers in the state"] for row in finding.rows if row["rule"] == rule] for rule in RULES}
    # keys and values of 8 numbers for every position
    assert numbers["attention"] == [2 * 8 * (2 + NUM_QUERIES), 2 * 8 * (4 + NUM_QUERIES)]
    assert all(first == last for rule, (first, last) in numbers.items() if rule != "attention")


def test_no_rule_uses_later_positions():
    with seeded(0):
        task = RecallTask(pairs=(4,), num_symbols=8, num_values=4)
        batch = task.draw(2, 4)
        changed = batch.keys.clone()
        changed[:, -1] = (changed[:, -1] + 1) % 8
        for rule in RULES:
            model = task.build(rule, 8)
            first, second = (model(type(batch)(keys, batch.values, batch.answers))[0] for keys in (batch.keys, changed))
            torch.testing.assert_close(first[:, :-1], second[:, :-1])
            assert (first[:, -1] - second[:, -1]).abs().max() > 1e-6
