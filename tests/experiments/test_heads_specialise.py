"""Heads: behaviour and ablation are measured right, and the verdict follows the losses."""

import pytest
import torch

from regard.attention import trace
from regard.experiments.heads_specialise import (
    TASKS,
    Head,
    ThreeTasks,
    TrainedHeads,
    accuracies,
    analyse,
    draw_text,
    judge,
    lost_without,
    weight_on,
)
from regard.experiments.lib.small_transformer import seeded

SHAPE = {"num_symbols": 4, "length": 8}


def trained_of(losses, group=(0.8, 0.0), seeds=3):
    """One head per task with these losses in its own and the other tasks; group: losses by its own kind and another."""
    models = []
    for seed in range(seeds):
        heads = [
            Head(
                layer=1 + place % 2,
                number=1,
                entropy=1.0,
                distance=2.0,
                attends={task: 0.9 if task == kind else 0.05 for task in TASKS},
                losses={task: losses[0] + 0.01 * seed if task == kind else losses[1] for task in TASKS},
            )
            for place, kind in enumerate(TASKS)
        ]
        by_kind = {
            kind: {task: group[0] + 0.01 * seed if task == kind else group[1] for task in TASKS} for kind in TASKS
        }
        models.append(TrainedHeads(accuracy=dict.fromkeys(TASKS, 1.0), heads=heads, losses=by_kind))
    return models


def test_losses_on_one_task_each_hold():
    holds, verdict = judge(trained_of((0.5, 0.0)))
    assert holds is True, verdict
    assert "the heads specialise" in verdict.en
    assert "9 attend most to what this task needs; every task needs one" in verdict.en


@pytest.mark.parametrize(("losses", "group"), [((0.5, 0.5), (0.8, 0.0)), ((0.5, 0.0), (0.1, 0.8))])
def test_losses_on_all_tasks_or_by_other_kinds_refute_it(losses, group):
    holds, verdict = judge(trained_of(losses, group))
    assert holds is False
    assert "the heads do not specialise" in verdict.en


def test_kinds_that_matter_equally_do_not_decide():
    holds, verdict = judge(trained_of((0.5, 0.0), (0.3, 0.32)))
    assert holds is None
    assert "this is not clear" in verdict.en


def test_a_task_without_a_necessary_head_is_named():
    _, verdict = judge(trained_of((0.01, 0.0)))
    assert "no single head is needed for: previous, first, marked" in verdict.en


def test_without_any_loss_nothing_is_selective():
    assert trained_of((-0.02, 0.0), seeds=1)[0].selectivity <= 1 / 3
    assert trained_of((0.0, 0.0), seeds=1)[0].selectivity == pytest.approx(1 / 3)


def test_the_answers_are_those_of_the_text():
    with seeded(0):
        text = draw_text(20, **SHAPE)
    symbols = text.ids % 4
    for row in range(20):
        marked = int(text.marked[row])
        assert (text.ids[row] >= 4).nonzero().flatten().tolist() == [marked]
        for position in text.is_asked[row].nonzero().flatten().tolist():
            assert position >= marked + 2
            expected = {"previous": position - 1, "first": 0, "marked": marked}
            for task, place in expected.items():
                assert text.answers[task][row, position] == symbols[row, place]


def test_the_weight_on_the_key_of_a_task():
    with seeded(0):
        text = draw_text(6, **SHAPE)
    # all weight on the position before
    weights = torch.diag(torch.ones(7), -1).expand(6, 8, 8)
    measured = weight_on(weights, text)
    assert measured["previous"] == 1.0
    assert measured["marked"] == measured["first"] == 0.0


def test_a_removed_head_has_no_weight_and_the_others_keep_theirs():
    with seeded(0):
        model, text = ThreeTasks(**SHAPE, size=8, num_heads=2, num_layers=2), draw_text(6, **SHAPE)
        complete = accuracies(model, text)
        assert lost_without(model, text, [], complete) == dict.fromkeys(TASKS, 0.0)
        with trace(model) as maps:
            model(text)
        heads = analyse(model, text).heads
    assert len(maps) == 2
    assert [(head.layer, head.number) for head in heads] == [(1, 1), (1, 2), (2, 1), (2, 2)]
    # removing every head leaves a model that knows only its own symbol and position
    removed = [(path, number) for path in maps for number in range(2)]
    everything = lost_without(model, text, removed, dict.fromkeys(TASKS, 1.0))
    assert all(value > 0.3 for value in everything.values())
