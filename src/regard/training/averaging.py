"""A running average of the weights that suits short trainings too.

    averaged <- d averaged + (1 - d) weights,   d = min(decay, (1 + t) / (10 + t)) after t steps

Were d the decay from the start, a training of 30 steps would keep mostly the weights it began with.
"""

import torch
from torch import Tensor, nn
from torch.optim.swa_utils import AveragedModel

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
