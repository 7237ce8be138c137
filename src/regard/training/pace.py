"""When something is due in a training, how long it will be, and how long it took."""

import time
from dataclasses import replace

from regard.training.feed import TrainingData, Work
from regard.training.settings import ScheduleSettings, TrainingSettings

AT_FULL_RATE = ("constant", "halving", "exponential")
"""Schedules for which a training cannot be too short: they stay at 1 once they are there, or begin there."""


class Clock:
    """Seconds of training, over all resumptions, and since the last mark."""

    def __init__(self, before: float = 0.0) -> None:
        self._before, self._start = before, time.perf_counter()
        self._mark = self._start

    def mark(self) -> None:
        """Count anew."""
        self._mark = time.perf_counter()

    @property
    def seconds(self) -> float:
        """Of the whole training."""
        return self._before + time.perf_counter() - self._start

    @property
    def since_mark(self) -> float:
        """Since the last mark."""
        return time.perf_counter() - self._mark


def is_due(every: int | None, step: int, work: Work) -> bool:
    """Whether something that is done every so many steps, or every epoch, is to be done now."""
    return work.ends_epoch if every is None else step % every == 0


def total_steps(settings: TrainingSettings, data: TrainingData) -> int:
    """How many steps a training has, if patience lasts and epochs are alike."""
    if settings.epochs is None:
        return settings.steps or 0
    steps = settings.epochs * len(data.order.epoch(0))
    return steps if settings.steps is None else min(steps, settings.steps)


def too_short(settings: TrainingSettings, total: int) -> str:
    """What is wrong with a training that ends before its learning rate has grown; nothing if it does not."""
    warmup = settings.schedule.warmup_steps
    if settings.schedule.name in AT_FULL_RATE or not 0 < total <= warmup:
        return ""
    return (
        f"the learning rate grows for {warmup:,} steps, and this training has {total:,}. Shorten the warm-up "
        f"(training.schedule.warmup_steps={max(total // 10, 1)}), or train longer."
    )


def complete_schedule(schedule: ScheduleSettings, total: int) -> ScheduleSettings:
    """A schedule that comes down to its floor does so at the end of training, unless it says where."""
    ends = schedule.name in ("linear", "cosine") and schedule.decay_steps is None
    return replace(schedule, decay_steps=max(total, 1)) if ends else schedule
