"""Learning-rate schedules, the length of a training, and its clock.

A schedule is the factor of the learning rate at each step, counted from 1.

    constant      warm up to 1, then 1
    halving       1 until `warmup_steps`, then halved there and every `decay_steps`
    exponential   1 until `warmup_steps`, then exponential decay with the half-life `decay_steps`
    linear        warm up to 1, then straight down to the floor
    cosine        warm up to 1, then half a cosine down to the floor
    noam          hidden_size^-1/2 min(step^-1/2, step warmup^-3/2)
    inverse_sqrt  min(step / warmup, sqrt(warmup / step)): the same shape with its peak at 1

Exponential: Zaremba et al. 2014, section 4.1, there per epoch. https://arxiv.org/abs/1409.2329
Halving: Sutskever et al. 2014, section 3.4. https://arxiv.org/abs/1409.3215
Cosine: Loshchilov and Hutter 2017. https://arxiv.org/abs/1608.03983
Noam: Vaswani et al. 2017, section 5.3. https://arxiv.org/abs/1706.03762
"""

import math
import time
from collections.abc import Callable
from dataclasses import replace

from regard._utils import check_name
from regard.training.loader import StepBatches, TrainingData
from regard.training.settings import ScheduleSettings, TrainingSettings


def noam(step: int, settings: ScheduleSettings) -> float:
    """Linear warm-up, then the inverse square root, scaled by the hidden size of the model."""
    # at least 1, because 0 has no power of -3/2
    warmup = max(settings.warmup_steps, 1)
    return settings.hidden_size**-0.5 * min(step**-0.5, step * warmup**-1.5)


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
    """1 until `warmup_steps`, then halved every `decay_steps`."""
    if settings.decay_steps is None:
        raise ValueError("the schedule halving needs decay_steps: the number of steps between two halvings.")
    # step `warmup_steps` is the last one at the full rate
    late = step - settings.warmup_steps
    return 1.0 if late <= 0 else 0.5 ** (1 + (late - 1) // settings.decay_steps)


def exponential(step: int, settings: ScheduleSettings) -> float:
    """1 until `warmup_steps`, then exponential decay."""
    if settings.decay_steps is None:
        raise ValueError("the schedule exponential needs decay_steps: the number of steps in which the rate halves.")
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
    """The schedule of this name; the error suggests the nearest."""
    check_name(name, SCHEDULES, "schedule")
    return SCHEDULES[name]


def _warmed(step: int, settings: ScheduleSettings) -> float:
    # without a warm-up the factor is 1 from the first step on
    return min(1.0, step / max(settings.warmup_steps, 1))


def _decayed(step: int, settings: ScheduleSettings) -> float:
    if settings.decay_steps is None:
        raise ValueError(f"the schedule {settings.name} needs decay_steps: the last step of the decay.")
    # at least 1: the decay may be set to end before the warm-up
    span = max(settings.decay_steps - settings.warmup_steps, 1)
    # clamped: 0 during the warm-up, 1 after the last step of the decay
    return min(max((step - settings.warmup_steps) / span, 0.0), 1.0)


def _to_floor(factor: float, settings: ScheduleSettings) -> float:
    # the floor is a share of the learning rate, not a learning rate
    return settings.floor + (1.0 - settings.floor) * factor


NO_LONG_WARM_UP = ("constant", "halving", "exponential")
"""Schedules that are not checked for a warm-up longer than the training: their factor stays at 1, or begins there."""


class Clock:
    """Seconds of training, including those before it was resumed, and seconds since the last mark."""

    def __init__(self, before: float = 0.0) -> None:
        self._before, self._start = before, time.perf_counter()
        self._mark = self._start

    def mark(self) -> None:
        """Reset `since_mark`."""
        self._mark = time.perf_counter()

    @property
    def seconds(self) -> float:
        """Seconds of the whole training."""
        return self._before + time.perf_counter() - self._start

    @property
    def since_mark(self) -> float:
        """Seconds since the last mark."""
        return time.perf_counter() - self._mark


def is_due(every: int | None, step: int, batches: StepBatches) -> bool:
    """True after every `every` steps, or for None at the end of an epoch."""
    return batches.ends_epoch if every is None else step % every == 0


def total_steps(settings: TrainingSettings, data: TrainingData) -> int:
    """The number of steps of a training that is not stopped early, if all epochs have as many batches as the first."""
    if settings.epochs is None:
        return settings.steps or 0
    steps = settings.epochs * len(data.order.epoch(0))
    return steps if settings.steps is None else min(steps, settings.steps)


def warm_up_warning(settings: TrainingSettings, total: int) -> str:
    """A warning if the training ends before the warm-up does, else an empty text."""
    warmup = settings.schedule.warmup_steps
    if settings.schedule.name in NO_LONG_WARM_UP or not 0 < total <= warmup:
        return ""
    return (
        f"the warm-up of the learning rate has {warmup:,} steps, and this training only {total:,}. Shorten it "
        f"(training.schedule.warmup_steps={max(total // 10, 1)}) or train longer."
    )


def complete_schedule(schedule: ScheduleSettings, total: int) -> ScheduleSettings:
    """The schedule with `decay_steps` set to the end of training if it decays to a floor and has none."""
    # for the other schedules decay_steps is a period, which does not follow from the length
    ends_with_training = schedule.name in ("linear", "cosine") and schedule.decay_steps is None
    return replace(schedule, decay_steps=max(total, 1)) if ends_with_training else schedule
