"""Schedules by their formulas, and the smaller parts of training."""

import math

import pytest
import torch

from regard.tasks import model_card
from regard.training import SCHEDULES, ScheduleSettings, SelectionSettings, TrainingSettings, average_tensors
from regard.training.loader import Prefetcher
from regard.training.schedules import find_schedule, warm_up_warning
from regard.training.selection import BestTracker


def factors(name, steps, **changes):
    settings = ScheduleSettings(name=name, **changes)
    return [SCHEDULES[name](step, settings) for step in steps]


@pytest.mark.parametrize(
    ("warmup_steps", "total", "expected"), [(2000, 30, "warmup_steps=3)"), (30, 30, "warmup_steps=3)"), (29, 30, "")]
)
def test_a_warm_up_longer_than_the_training_gives_a_warning(warmup_steps, total, expected):
    noam, *others = (
        TrainingSettings(steps=total, schedule=ScheduleSettings(name=name, warmup_steps=warmup_steps, decay_steps=5))
        for name in ("noam", "constant", "halving", "exponential")
    )
    warning = warm_up_warning(noam, total)
    assert expected in warning and bool(warning) == bool(expected)
    assert not any(warm_up_warning(settings, total) for settings in others)


def test_noam_is_the_formula_of_the_paper():
    for step in (1, 100, 3999, 4000, 4001, 100_000):
        expected = 512**-0.5 * min(step**-0.5, step * 4000**-1.5)
        assert factors("noam", [step], hidden_size=512, warmup_steps=4000) == [expected]
    assert factors("noam", [4000]) == pytest.approx([512**-0.5 * 4000**-0.5])


def test_other_schedules_equal_their_formulas():
    assert factors("inverse_sqrt", [1, 10, 40], warmup_steps=10) == pytest.approx([0.1, 1.0, 0.5])
    assert factors("constant", [1, 2, 9], warmup_steps=2) == [0.5, 1.0, 1.0]
    assert factors("linear", [5, 10, 15, 20, 30], warmup_steps=10, decay_steps=20) == [0.5, 1.0, 0.5, 0.0, 0.0]
    halfway = 0.1 + 0.9 * (0.5 + 0.5 * math.cos(math.pi / 2))
    assert factors("cosine", [10, 15, 20], warmup_steps=10, decay_steps=20, floor=0.1) == pytest.approx(
        [1.0, halfway, 0.1]
    )
    assert factors("halving", [5, 6, 7, 8, 9], warmup_steps=5, decay_steps=2) == [1.0, 0.5, 0.5, 0.25, 0.25]
    assert factors("exponential", [1, 5, 6, 7, 9], warmup_steps=5, decay_steps=2) == pytest.approx(
        [1.0, 1.0, 0.5**0.5, 0.5, 0.25]
    )


@pytest.mark.parametrize("name", SCHEDULES)
def test_every_schedule_is_finite_and_never_negative(name):
    for warmup in (0, 1, 7):
        values = factors(name, range(1, 60), warmup_steps=warmup, decay_steps=50)
        assert all(0.0 <= value <= 1.0 for value in values)


def test_a_missing_setting_of_a_schedule_raises_an_error():
    with pytest.raises(ValueError, match="needs decay_steps"):
        factors("linear", [1])
    with pytest.raises(ValueError, match="the nearest is 'noam'"):
        find_schedule("noom")


def test_an_average_keeps_ties_and_precision():
    one = torch.tensor([1.0, 2.0])
    two = torch.tensor([3.0, 6.0])
    count = torch.tensor(7)
    mean = average_tensors([{"a": one, "b": one, "n": count}, {"a": two, "b": two, "n": count}])
    assert mean["a"].tolist() == [2.0, 4.0] and mean["a"] is mean["b"] and mean["a"].dtype == torch.float32
    assert mean["n"] == 7
    with pytest.raises(ValueError, match="no weights to average"):
        average_tensors([])


def test_a_finite_loss_is_better_than_nan():
    settings = SelectionSettings(patience=2)
    best = BestTracker().after(1, {"loss": math.nan}, settings).after(2, {"loss": 5.0}, settings)
    assert (best.step, best.since) == (2, 0)
    best = best.after(3, {"loss": math.nan}, settings)
    assert not best.exhausted(settings)
    assert best.after(4, {"loss": 5.0}, settings).exhausted(settings)


def test_the_prefetcher_keeps_the_order_and_its_thread_ends():
    prefetcher = Prefetcher(iter(range(1000)), 3)
    items = iter(prefetcher)
    assert [next(items) for _ in range(10)] == list(range(10))
    prefetcher.close()
    assert not prefetcher._thread.is_alive()


def test_a_model_card_contains_its_facts():
    text = model_card(
        title="bahdanau on dates",
        summary="Reads dates.",
        sections={
            "Model": {"parameters": 1234567, "sizes": {"hidden": 64}, "left out": None},
            "Use": "Run it.",
            "No": {},
        },
    )
    assert text.startswith("# bahdanau on dates\n\nReads dates.\n\n## Model\n")
    assert "| parameters | 1,234,567 |" in text and "| sizes.hidden | 64 |" in text
    assert "left out" not in text and "## No" not in text and text.endswith("## Use\n\nRun it.\n")
