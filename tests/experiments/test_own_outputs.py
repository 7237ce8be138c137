"""Training on own outputs: the tasks are what they say, and the verdict is by task."""

import pytest
import torch

from regard.experiments.lib.small_transformer import seeded
from regard.experiments.own_outputs import (
    FORCED,
    FREE,
    RATIOS,
    SCHEDULED,
    Course,
    TextTask,
    TranslationTask,
    judge,
    train,
)


def courses_of(mean, end):
    """Three seeds that differ a little."""
    return [Course(curve=[mean + noise, end + noise], forced=end) for noise in (0.0, 0.01, -0.01)]


FASTER = {FORCED: courses_of(0.8, 1.0), SCHEDULED: courses_of(0.6, 0.9), FREE: courses_of(0.3, 0.5)}
EQUAL = {FORCED: courses_of(0.8, 1.0), SCHEDULED: courses_of(0.8, 1.0), FREE: courses_of(0.8, 1.0)}
VARYING = FASTER | {FREE: [Course(curve=[v, v], forced=v) for v in (0.1, 0.95, 0.9)]}


@pytest.mark.parametrize(
    ("translation", "expected", "sentence"),
    [
        (FASTER, True, "The claim holds for text, holds for translation."),
        (EQUAL, False, "The claim holds for text, does not hold for translation."),
        (VARYING, None, "The claim holds for text, is open for translation."),
        (FASTER | {FREE: courses_of(0.9, 1.0)}, False, "does not hold for translation"),
    ],
)
def test_the_verdict_needs_both_tasks(translation, expected, sentence):
    holds, verdict = judge({"text": FASTER, "translation": translation})
    assert holds is expected
    assert sentence in verdict.en


def test_a_difference_within_the_spread_reads_well_in_chinese():
    _, verdict = judge({"text": FASTER, "translation": VARYING})
    assert "教师强制明显更快。" in verdict.zh and "教师强制更好，但差异在误差范围内。" in verdict.zh
    assert verdict.zh.endswith("这个说法对文本成立，对翻译尚无定论。")


def test_ratios_go_from_none_to_all():
    assert [RATIOS[FORCED](progress) for progress in (0.0, 0.5, 1.0)] == [0.0, 0.0, 0.0]
    assert [RATIOS[SCHEDULED](progress) for progress in (0.0, 0.5, 1.0)] == [0.0, 0.5, 1.0]
    assert RATIOS[FREE](0.0) == 1.0


def test_texts_follow_the_language_and_only_allowed_steps_count():
    with seeded(0):
        task = TextTask(size=8, num_symbols=5, length=7)
        texts = task.draw(300)
        # a model whose logits are equal takes any symbol: 2 of 5 are allowed
        for parameter in task.model.parameters():
            torch.nn.init.zeros_(parameter)
        share = task.quality(own=True, count=2000)
    assert (task.successors[:, 0] != task.successors[:, 1]).all()
    assert (task.successors[texts[:, :-1]] == texts[:, 1:, None]).any(dim=-1).all()
    assert share == pytest.approx(0.4, abs=0.03)


def test_with_own_outputs_the_text_is_not_learned_and_with_true_tokens_it_is():
    shares = {}
    for name in (FORCED, FREE):
        with seeded(0):
            shares[name] = train(TextTask(size=24, num_symbols=6, length=5), RATIOS[name], steps=70, examples=50).curve[
                -1
            ]
    assert shares[FORCED] > shares[FREE] + 0.1


def test_a_course_has_a_measurement_for_each_interval_and_the_end():
    with seeded(0):
        course = train(TranslationTask(size=4, num_symbols=3, length=2), RATIOS[SCHEDULED], steps=40, examples=4)
    assert len(course.curve) == 21
    assert course.mean == pytest.approx(sum(course.curve) / 21)
