"""Learning-rate schedules: what the learning rate is multiplied by at each step, counted from 1.

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
"""

import math
from collections.abc import Callable

from regard.contracts import check_name
from regard.training.settings import ScheduleSettings


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
