"""Learned bandwidth: gradient descent on the leave-one-out loss.

    loss(w) = sum_i (y_i - f_{-i}(x_i))^2 / n,   f_{-i}(x) = sum_{j != i} softmax_j(-1/2 |w (x - x_j)|^2) y_j

The width w = 1/h of the kernel is a parameter, in which the prediction is smooth. On its own training inputs, however,
the regression predicts each target from itself at distance 0: as w grows, the loss falls to 0 and w goes to infinity.
So each training input attends to all others but not to itself (a mask on the diagonal), and the loss has a minimum at
the width that predicts best. A batch of inputs is predicted from all others, so a step costs batch x n.

Leave-one-out: Stone 1974, https://doi.org/10.1111/j.2517-6161.1974.tb00994.x. With one width per dimension, the
bandwidths of irrelevant dimensions grow without bound: Hall, Li and Racine 2007,
https://doi.org/10.1162/rest.89.4.784
"""

import math
from dataclasses import dataclass, field

import torch
from jaxtyping import Float, Int
from torch import Tensor

from regard.attention import attend
from regard.attention.masks import ComposableMask, Predicate, predicate
from regard.regression.bandwidth_slope import loss_and_slope
from regard.regression.kernels import Kernel, kernel_attention

FACTORS = tuple(2.0**power for power in range(-5, 4))
"""Multiples of the rule of thumb; descent starts at the best of them."""
SMALLEST_BATCH = 64
"""Inputs of a batch at least: the loss of fewer is mostly noise."""
TRIAL_BATCHES = 8
"""Batches on which each start is evaluated."""
MOMENTS_SPEEDUP = 8
"""Pairs by moments that cost as much as one by autograd."""


def is_other(query: Int[Tensor, "..."], key: Int[Tensor, "..."]) -> Tensor:
    """Whether these are two different training inputs."""
    return query != key


OTHERS = predicate(is_other)


@dataclass(frozen=True, kw_only=True)
class LeaveOneOut:
    """Options for learning a bandwidth.

    `widths` is "one" for all dimensions, or "per_dimension". `pairs` bounds the cost of a step, batch x training
    inputs, down to a smallest batch. `mask` is the mask among the training inputs; with None each input attends to
    itself too, and the bandwidth falls to 0.
    """

    widths: str = "one"
    steps: int = 100
    rate: float = 0.1
    pairs: int = 2**21
    mask: ComposableMask | None = field(default=OTHERS, repr=False)

    def __post_init__(self) -> None:
        if self.widths not in ("one", "per_dimension"):
            raise ValueError(f"widths is {self.widths!r}, expected 'one' or 'per_dimension'.")
        # `not >` instead of `<=`, to refuse NaN
        if self.steps < 1 or self.pairs < 1 or not self.rate > 0:
            raise ValueError(
                f"steps is {self.steps}, pairs {self.pairs}, rate {self.rate}: expected positive numbers, such as "
                f"LeaveOneOut(steps=100, pairs=2**21, rate=0.1)."
            )


@dataclass(frozen=True, kw_only=True)
class BandwidthObjective:
    """The loss over a training set, which is in the order in which its batches are taken."""

    inputs: Float[Tensor, "N size"]
    targets: Float[Tensor, "N value"]
    log_weights: Float[Tensor, " N"]
    kernel: Kernel
    mask: ComposableMask | None
    by_moments: bool

    def loss(self, log_bandwidth: Float[Tensor, "..."], rows: slice) -> Float[Tensor, ""]:
        """Mean squared error of these rows, predicted from all rows that the mask allows."""
        # masks align the last query with the last key: with the batch at the end, the diagonal is each row itself
        keys, values, log_weights = (
            torch.roll(part, -rows.stop, dims=0) for part in (self.inputs, self.targets, self.log_weights)
        )
        scale = torch.exp(-log_bandwidth)
        score, align = kernel_attention(self.kernel, log_weights)
        queries, weights = self.inputs[rows] * scale, self.log_weights[rows].exp()
        context = attend(queries, keys * scale, values, score=score, align=align, mask=self.mask).context
        # the mean over outputs: all of them were brought to one spread
        errors = (self.targets[rows] - context).square().mean(dim=-1)
        return (errors * weights).sum() / weights.sum()

    def loss_and_slope(
        self, log_bandwidth: Float[Tensor, "..."], rows: slice
    ) -> tuple[Float[Tensor, ""], Float[Tensor, "..."]]:
        """The loss and its slope, by autograd or, with `by_moments`, by the formula for the Gaussian kernel."""
        if self.by_moments:
            return loss_and_slope(self.inputs, self.targets, self.log_weights.exp(), log_bandwidth, rows)
        log_bandwidth = log_bandwidth.detach().requires_grad_()
        loss = self.loss(log_bandwidth, rows)
        (slope,) = torch.autograd.grad(loss, log_bandwidth)
        return loss.detach(), slope


def learn_bandwidth(
    inputs: Float[Tensor, "N size"],
    targets: Float[Tensor, "N value"],
    log_weights: Float[Tensor, " N"],
    *,
    kernel: Kernel,
    how: LeaveOneOut,
    generator: torch.Generator,
) -> Float[Tensor, "..."]:
    """The bandwidth, one number or one per dimension, that predicts each training input best from the others."""
    num, size = inputs.shape
    # the formula by moments holds for the Gaussian kernel and the diagonal mask, and pays off for many pairs
    leaves_one_out = isinstance(how.mask, Predicate) and how.mask.function is is_other
    by_moments = leaves_one_out and not kernel.compact and num**2 > how.pairs
    pairs = how.pairs * (MOMENTS_SPEEDUP if by_moments else 1)
    # the cost of a grid is that of its keys, so all rows are predicted at once
    batch = num if by_moments and size == 1 else min(max(pairs // num, SMALLEST_BATCH), num)
    # shuffled once: batches are slices of this order in every epoch
    order = torch.randperm(num, generator=generator) if batch < num else torch.arange(num)
    objective = BandwidthObjective(
        inputs=centre_and_clamp(inputs)[order],
        targets=standardize(targets)[order],
        log_weights=log_weights[order],
        kernel=kernel,
        mask=how.mask,
        by_moments=by_moments,
    )
    batches = [slice(first, min(first + batch, num)) for first in range(0, num, batch)]
    start = choose_start(objective, how, batches[:TRIAL_BATCHES])
    return descend(objective, how, start, batches).exp()


def choose_start(objective: BandwidthObjective, how: LeaveOneOut, batches: list[slice]) -> Float[Tensor, "..."]:
    """The logarithm of the best multiple of Scott's rule of thumb, spread * n^(-1 / (d + 4))."""
    num, size = objective.inputs.shape
    spreads = robust_spreads(objective.inputs)
    if how.widths == "one":
        spreads = spreads.square().mean().sqrt()
    # a constant dimension has no spread, and its bandwidth does not matter
    rule_of_thumb = (torch.where(spreads > 0, spreads, 1.0) * num ** (-1 / (size + 4))).log()
    starts = [rule_of_thumb + math.log(factor) for factor in FACTORS]
    # the loss may have several minima; a coarse search picks the basin
    losses = [sum(float(objective.loss_and_slope(start, rows)[0]) for rows in batches) for start in starts]
    return starts[min(range(len(starts)), key=losses.__getitem__)]


def descend(
    objective: BandwidthObjective, how: LeaveOneOut, start: Float[Tensor, "..."], batches: list[slice]
) -> Float[Tensor, "..."]:
    """Adam on the logarithm of the bandwidth, which keeps it positive; returns the mean of the last quarter of steps.

    The mean removes the noise of the batches.
    """
    log_bandwidth = start.clone().requires_grad_()
    # steps of Adam do not depend on the scale of the loss, which is unknown here
    optimizer = torch.optim.Adam([log_bandwidth], lr=how.rate)
    schedule = torch.optim.lr_scheduler.CosineAnnealingLR(optimizer, T_max=how.steps, eta_min=how.rate / 20)
    path = []
    for step in range(how.steps):
        _, slope = objective.loss_and_slope(log_bandwidth.detach(), batches[step % len(batches)])
        # a single row has no others, and the slope of its loss is NaN: leave the bandwidth as it is
        log_bandwidth.grad = slope.nan_to_num(nan=0.0, posinf=0.0, neginf=0.0)
        optimizer.step()
        schedule.step()
        path.append(log_bandwidth.detach().clone())
    return torch.stack(path[-max(how.steps // 4, 1) :]).mean(dim=0)


def centre_and_clamp(inputs: Float[Tensor, "N size"]) -> Float[Tensor, "N size"]:
    """Inputs relative to their median, clamped to 1000 spreads.

    An outlier has no neighbours at 1000 spreads either, and squares of smaller numbers keep their digits.
    """
    centred = inputs - inputs[:: max(len(inputs) // 4096, 1)].median(dim=0).values
    limits = 1000 * robust_spreads(inputs)
    return centred.clamp(-limits, limits)


def robust_spreads(inputs: Float[Tensor, "N size"]) -> Float[Tensor, " size"]:
    """The smaller of the standard deviation and its estimate from quartiles (Silverman 1986, 3.4.2)."""
    # 4096 rows estimate quartiles well enough
    subset = inputs[:: max(len(inputs) // 4096, 1)]
    low, high = torch.quantile(subset, torch.tensor([0.25, 0.75], dtype=subset.dtype), dim=0)
    deviation, quartile_spread = inputs.std(dim=0, correction=0), (high - low) / 1.349
    # quartiles of a mostly constant input are equal
    return torch.where(quartile_spread > 0, torch.minimum(deviation, quartile_spread), deviation)


def standardize(targets: Float[Tensor, "N value"]) -> Float[Tensor, "N value"]:
    """Targets of mean 0 and spread 1, so that every output has the same weight in the loss."""
    spreads = targets.std(dim=0, correction=0)
    return (targets - targets.mean(dim=0)) / torch.where(spreads > 0, spreads, 1.0)
