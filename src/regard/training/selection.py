"""Selection of weights: running average, best so far, and when to stop.

A running average of the weights that suits short trainings too.

    averaged <- d averaged + (1 - d) weights,   d = min(decay, (1 + t) / (10 + t)) after t steps

Were d the decay from the start, a training of 30 steps would keep mostly the weights it began with.

Which weights are best so far, whether to go on waiting, and the average of the last ones.

Averaging checkpoints: Vaswani et al. 2017, section 6.1. https://arxiv.org/abs/1706.03762
"""

import math
from collections.abc import Iterable, Mapping
from dataclasses import dataclass, field

import torch
from torch import Tensor, nn
from torch.optim.swa_utils import AveragedModel

from regard.training.settings import SelectionSettings

Tensors = tuple[Tensor, ...] | list[Tensor]


class RunningAverage(AveragedModel):
    """A copy of a model that follows its weights; `n_averaged` stays on the host, so that no step waits for it."""

    def __init__(self, model: nn.Module, decay: float) -> None:
        super().__init__(model, multi_avg_fn=self.follow)
        self.decay = decay

    @torch.no_grad()
    def follow(self, averaged: Tensors, weights: Tensors, _: Tensor | int) -> None:
        """One step nearer to the weights."""
        steps = int(self.n_averaged)
        torch._foreach_lerp_(averaged, weights, 1 - min(self.decay, (1 + steps) / (10 + steps)))


@dataclass(frozen=True)
class BestTracker:
    """The best validation so far, and how many came after it."""

    step: int = 0
    metrics: dict[str, float] = field(default_factory=dict)
    since: int = 0

    def after(self, step: int, metrics: dict[str, float], settings: SelectionSettings) -> "BestTracker":
        """The standing after another validation."""
        if is_better(metrics, self.metrics, settings):
            return BestTracker(step, metrics, 0)
        return BestTracker(self.step, self.metrics, self.since + 1)

    def exhausted(self, settings: SelectionSettings) -> bool:
        """Whether patience is at its end."""
        return settings.patience is not None and self.since >= settings.patience


def is_better(metrics: Mapping[str, float], best: Mapping[str, float], settings: SelectionSettings) -> bool:
    """Whether these metrics beat those; anything beats nothing, a number beats NaN; of equals the lower loss wins."""
    value = metric_of(metrics, settings)
    if not best:
        return True
    old = metric_of(best, settings)
    if math.isnan(value) or math.isnan(old):
        return not math.isnan(value)
    if value == old and settings.metric != "loss" and {"loss"} <= metrics.keys() & best.keys():
        # of equally many right answers, those are better that are surer
        return metrics["loss"] < best["loss"]
    return value < old if settings.better == "lower" else value > old


def metric_of(metrics: Mapping[str, float], settings: SelectionSettings) -> float:
    """The metric that decides."""
    if settings.metric not in metrics:
        raise ValueError(f"validation gives no {settings.metric!r}. Choose the metric among: {', '.join(metrics)}.")
    return metrics[settings.metric]


def average_tensors(all_tensors: Iterable[Mapping[str, Tensor]]) -> dict[str, Tensor]:
    """The mean of each tensor over several sets of the same names, summed in float64; integers are those of the last.

    Names that are one tensor stay one.
    """
    sums: dict[str, Tensor] = {}
    last: Mapping[str, Tensor] = {}
    count = 0
    for tensors in all_tensors:
        count, last = count + 1, tensors
        for name, tensor in tensors.items():
            if tensor.is_floating_point():
                sums[name] = sums[name] + tensor.double() if name in sums else tensor.double()
    if not count:
        raise ValueError("there are no weights to average.")
    made: dict[int, Tensor] = {}
    for name, tensor in last.items():
        if id(tensor) not in made:
            made[id(tensor)] = (sums[name] / count).to(tensor.dtype) if name in sums else tensor
    return {name: made[id(tensor)] for name, tensor in last.items()}


def all_finite(tensors: Mapping[str, Tensor]) -> bool:
    """Whether every number is one."""
    checks = [torch.isfinite(tensor).all() for tensor in tensors.values() if tensor.is_floating_point()]
    return not checks or bool(torch.stack(checks).all())
