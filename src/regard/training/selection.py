"""Selection of weights: running average, best validation, early stopping, and the average of the last weights.

The running average also suits short trainings:

    averaged <- d averaged + (1 - d) weights,   d = min(decay, (1 + t) / (10 + t)) after t steps

With d = decay from the start, the average of a training of 30 steps would be mostly the initial weights.

Averaging checkpoints: Vaswani et al. 2017, section 6.1. https://arxiv.org/abs/1706.03762
"""

import math
from collections.abc import Iterable, Mapping
from dataclasses import dataclass, field

import torch
from torch import Tensor, nn
from torch.optim.swa_utils import AveragedModel

from regard.contracts import torch_private
from regard.training.settings import SelectionSettings

TensorList = tuple[Tensor, ...] | list[Tensor]


class RunningAverage(AveragedModel):
    """A copy of a model with the running average of its weights."""

    def __init__(self, model: nn.Module, decay: float) -> None:
        # all parameters in one call, for a few fused kernels instead of one per tensor
        super().__init__(model, multi_avg_fn=self.update)
        self.decay = decay

    @torch.no_grad()
    def update(self, averaged: TensorList, weights: TensorList, _: Tensor | int) -> None:
        """Move the average one step towards the weights."""
        # n_averaged is on the host, so reading it does not wait for the device
        steps = int(self.n_averaged)
        # averaged + (1 - d) (weights - averaged), the formula above
        torch_private.lerp_(averaged, weights, 1 - min(self.decay, (1 + steps) / (10 + steps)))


@dataclass(frozen=True)
class BestTracker:
    """The best validation so far, and the number of validations since."""

    step: int = 0
    metrics: dict[str, float] = field(default_factory=dict)
    since: int = 0

    def after(self, step: int, metrics: dict[str, float], settings: SelectionSettings) -> "BestTracker":
        """The tracker after another validation."""
        if is_better(metrics, self.metrics, settings):
            return BestTracker(step, metrics, 0)
        return BestTracker(self.step, self.metrics, self.since + 1)

    def exhausted(self, settings: SelectionSettings) -> bool:
        """True if there were `patience` validations without a better one."""
        return settings.patience is not None and self.since >= settings.patience


def is_better(metrics: Mapping[str, float], best: Mapping[str, float], settings: SelectionSettings) -> bool:
    """True if `metrics` are better than `best`.

    Anything is better than no metrics, and a number is better than NaN; of equal metrics the lower loss wins.
    """
    value = metric_of(metrics, settings)
    # the first validation is always the best, even if it is NaN
    if not best:
        return True
    old = metric_of(best, settings)
    # before the comparisons, in which NaN would be neither lower nor higher
    if math.isnan(value) or math.isnan(old):
        return not math.isnan(value)
    if value == old and settings.metric != "loss" and {"loss"} <= metrics.keys() & best.keys():
        # equal accuracy: the lower loss means higher confidence in the correct answers
        return metrics["loss"] < best["loss"]
    return value < old if settings.better == "lower" else value > old


def metric_of(metrics: Mapping[str, float], settings: SelectionSettings) -> float:
    """The value of the selection metric."""
    if settings.metric not in metrics:
        raise ValueError(f"validation returns no {settings.metric!r}. Choose the metric from: {', '.join(metrics)}.")
    return metrics[settings.metric]


def average_tensors(all_tensors: Iterable[Mapping[str, Tensor]]) -> dict[str, Tensor]:
    """The mean of each tensor over several sets with the same names; integers are taken from the last set.

    Tied tensors stay tied.
    """
    sums: dict[str, Tensor] = {}
    last: Mapping[str, Tensor] = {}
    count = 0
    for tensors in all_tensors:
        count, last = count + 1, tensors
        for name, tensor in tensors.items():
            if tensor.is_floating_point():
                # float64: the mean of several float32 tensors is then rounded once only
                sums[name] = sums[name] + tensor.double() if name in sums else tensor.double()
    if not count:
        raise ValueError("there are no weights to average.")
    # by identity, so that names of one tensor share one mean
    means: dict[int, Tensor] = {}
    for name, tensor in last.items():
        if id(tensor) not in means:
            means[id(tensor)] = (sums[name] / count).to(tensor.dtype) if name in sums else tensor
    return {name: means[id(tensor)] for name, tensor in last.items()}


def all_finite(tensors: Mapping[str, Tensor]) -> bool:
    """True if all floating-point values are finite."""
    # one transfer from the device for all tensors
    checks = [torch.isfinite(tensor).all() for tensor in tensors.values() if tensor.is_floating_point()]
    return not checks or bool(torch.stack(checks).all())
