"""Learning-rate schedules, and when something is due during training.

Learning-rate schedules: what the learning rate is multiplied by at each step, counted from 1.

    constant      warm up to 1, then 1
    halving       1 until `warmup_steps`, then halved there and every `decay_steps`
    exponential   1 until `warmup_steps`, then less at every step, a half every `decay_steps`
    linear        warm up to 1, then straight down to the floor
    cosine        warm up to 1, then half a cosine down to the floor
    noam          size^-1/2 min(step^-1/2, step warmup^-3/2)
    inverse_sqrt  min(step / warmup, sqrt(warmup / step)): the same shape with its peak at 1

Exponential: Zaremba et al. 2014, section 4.1, there epoch by epoch. https://arxiv.org/abs/1409.2329
Halving: Sutskever et al. 2014, section 3.4. https://arxiv.org/abs/1409.3215
Cosine: Loshchilov and Hutter 2017. https://arxiv.org/abs/1608.03983
Noam: Vaswani et al. 2017, section 5.3. https://arxiv.org/abs/1706.03762

When something is due in a training, how long it will be, and how long it took.
"""

import math
import time
from collections.abc import Callable
from dataclasses import replace

from regard._utils import check_name
from regard.training.loader import TrainingData, Work
from regard.training.settings import ScheduleSettings, TrainingSettings


def noam(step: int, settings: ScheduleSettings) -> float:
    """Linear warm-up, then the inverse square root, scaled by the model's size."""
    warmup = max(settings.warmup_steps, 1)
    return settings.size**-0.5 * min(step**-0.5, step * warmup**-1.5)


def inverse_sqrt(step: int, settings: ScheduleSettings) -> float:
    """Linear warm-up to 1, then the inverse square root."""
    warmup = max(settings.warmup_steps, 1)
    return min(step / warmup, math.sqrt(warmup / step))


def linear(step: int, settings: ScheduleSettings) -> float:
    """Linear warm-up to 1, then a straight line to the floor."""
    return _warmed(step, settings) * _to_floor(1.0 - _decayed(step, settings), settings)


def cosine(step: int, settings: ScheduleSettings) -> float:
    """Linear warm-up to 1, then half a cosine to the floor."""
    return _warmed(step, settings) * _to_floor(0.5 + 0.5 * math.cos(math.pi * _decayed(step, settings)), settings)


def halving(step: int, settings: ScheduleSettings) -> float:
    """1 for a while, then halved again and again."""
    if settings.decay_steps is None:
        raise ValueError("the schedule halving needs decay_steps: how many steps lie between two halvings.")
    late = step - settings.warmup_steps
    return 1.0 if late <= 0 else 0.5 ** (1 + (late - 1) // settings.decay_steps)


def exponential(step: int, settings: ScheduleSettings) -> float:
    """1 for a while, then ever less."""
    if settings.decay_steps is None:
        raise ValueError("the schedule exponential needs decay_steps: after how many steps the rate is halved.")
    return float(0.5 ** (max(step - settings.warmup_steps, 0) / settings.decay_steps))


def constant(step: int, settings: ScheduleSettings) -> float:
    """Linear warm-up to 1, then 1."""
    return _warmed(step, settings)


SCHEDULES: dict[str, Callable[[int, ScheduleSettings], float]] = {
    "constant": constant,
    "halving": halving,
    "exponential": exponential,
    "linear": linear,
    "cosine": cosine,
    "noam": noam,
    "inverse_sqrt": inverse_sqrt,
}
"""Every schedule by its name."""


def find_schedule(name: str) -> Callable[[int, ScheduleSettings], float]:
    """The schedule of this name, or the nearest one named."""
    check_name(name, SCHEDULES, "schedule")
    return SCHEDULES[name]


def _warmed(step: int, settings: ScheduleSettings) -> float:
    return min(1.0, step / max(settings.warmup_steps, 1))


def _decayed(step: int, settings: ScheduleSettings) -> float:
    if settings.decay_steps is None:
        raise ValueError(f"the schedule {settings.name} needs decay_steps: the step at which it ends.")
    span = max(settings.decay_steps - settings.warmup_steps, 1)
    return min(max((step - settings.warmup_steps) / span, 0.0), 1.0)


def _to_floor(share: float, settings: ScheduleSettings) -> float:
    return settings.floor + (1.0 - settings.floor) * share


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
