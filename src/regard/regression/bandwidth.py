"""Learned bandwidth: gradient descent on the leave-one-out loss.

The leave-one-out loss of the Gaussian kernel and its slope, without autograd: means are all it takes.

With p_ij the weight of j in the prediction f_i and u_ij = (x_i - x_j) / h in one dimension,

    d f_i / d log h = sum_j p_ij u_ij^2 y_j - f_i sum_j p_ij u_ij^2

and u^2 = x_i^2 - 2 x_i x_j + x_j^2 (in bandwidths), so that the same read which predicts y, asked also for the means of
x, x^2, x y and x^2 y, gives the slope: faster than going back through attention. In one dimension a grid gives them.

Learned bandwidth: gradient descent on the leave-one-out loss.

How can gradient descent apply to a regression that has nothing to fit? The width w = 1/h of the kernel is a parameter:
the prediction is a softmax of -1/2 |w (x - x_i)|^2, smooth in w. What is missing is a loss. Asked for its own training
inputs the regression finds each of them among its keys, at distance 0; as w grows it looks up their targets, and the
loss falls to 0 while w runs to infinity. So each training input attends to all others but not to itself (a mask on the
diagonal), and the loss has a minimum at the width that predicts best:

    loss(w) = sum_i (y_i - f_{-i}(x_i))^2 / n,   f_{-i}(x) = sum_{j != i} softmax_j(-1/2 |w (x - x_j)|^2) y_j

Stochastic, because a batch of inputs may ask while all others answer: the cost of a step is batch x n.

Leave-one-out: Stone 1974, https://doi.org/10.1111/j.2517-6161.1974.tb00994.x. With one width per dimension those of
irrelevant dimensions grow without bound: Hall, Li and Racine 2007, https://doi.org/10.1162/rest.89.4.784
"""

import math
from dataclasses import dataclass, field

import torch
from jaxtyping import Float, Int
from torch import Tensor

from regard.attention import attend
from regard.attention.masks import ComposableMask, Predicate, predicate
from regard.regression import grid
from regard.regression.exact import read_exact
from regard.regression.grid import grid_sums
from regard.regression.kernels import KERNELS, Kernel, attention_of
from regard.regression.training_set import Sample, prepare_sample


def loss_and_slope(
    inputs: Float[Tensor, "N size"],
    targets: Float[Tensor, "N value"],
    weights: Float[Tensor, " N"],
    log_bandwidth: Float[Tensor, "..."],
    rows: slice,
) -> tuple[Float[Tensor, ""], Float[Tensor, "..."]]:
    """Mean squared error of these rows, each predicted from all others, and its slope in the logarithm."""
    asked = torch.arange(len(inputs))[rows]
    by = by_grid if inputs.shape[1] == 1 else by_moments
    read, slopes = by(inputs, targets, weights, log_bandwidth.exp(), asked)
    errors, counts = read - targets[rows], weights[rows] / weights[rows].sum()
    loss = (counts * errors.square().mean(dim=-1)).sum()
    slope = (counts[:, None] * 2 * (errors[:, :, None] * slopes).mean(dim=1)).sum(dim=0)
    return loss, slope if log_bandwidth.ndim else slope.sum()


def by_moments(
    inputs: Float[Tensor, "N size"],
    targets: Float[Tensor, "N value"],
    weights: Float[Tensor, " N"],
    bandwidth: Float[Tensor, "..."],
    asked: Int[Tensor, " Q"],
) -> tuple[Float[Tensor, "Q value"], Float[Tensor, "Q value size"]]:
    """What the others predict for the rows asked, and how that moves with the logarithm of each bandwidth."""
    keys = inputs / bandwidth
    values = torch.cat([targets, *products(keys, targets)], dim=-1)
    sample = prepare_sample(inputs.numpy(), values.numpy(), weights.numpy(), bandwidth.numpy())
    queries = sample.in_bandwidths(inputs[asked].numpy())
    context = read_exact(queries, sample, KERNELS["gaussian"], hidden=places_of(asked, sample))
    means = torch.from_numpy(sample.in_targets(context.numpy()))
    return means[:, : targets.shape[1]], slopes_of(keys[asked], means)


def by_grid(
    inputs: Float[Tensor, "N 1"],
    targets: Float[Tensor, "N value"],
    weights: Float[Tensor, " N"],
    bandwidth: Float[Tensor, "..."],
    asked: Int[Tensor, " Q"],
) -> tuple[Float[Tensor, "Q value"], Float[Tensor, "Q value 1"]]:
    """The same in one dimension, where a grid sums u^2 exp(-1/2 u^2) as well; by moments where it cannot be trusted."""
    sample = prepare_sample(inputs.numpy(), targets.numpy(), weights.numpy(), bandwidth.numpy())
    found = grid_sums(sample.in_bandwidths(inputs[asked].numpy()), sample, grid.gaussian, grid.squared_gaussian)
    if found is None:
        return by_moments(inputs, targets, weights, bandwidth, asked)
    # every row is on its own key, which it feels in full, exp(0), and at no distance
    sums = torch.from_numpy(found.sums[0] - found.masses[:, places_of(asked, sample).numpy()])
    total, squares = sums[-1], torch.from_numpy(found.sums[1])
    trusted = total > found.lowest
    context = sums[:-1] / total
    moved = (squares[:-1] - context * squares[-1]) / total
    read = torch.from_numpy(sample.in_targets(context.T.numpy()))
    slopes = (torch.from_numpy(sample.spread)[:, None] * moved).T[:, :, None].contiguous()
    if not trusted.all():
        read[~trusted], slopes[~trusted] = by_moments(inputs, targets, weights, bandwidth, asked[~trusted])
    return read, slopes


def places_of(asked: Int[Tensor, " Q"], sample: Sample) -> Int[Tensor, " Q"]:
    """Where training rows are among the sorted keys."""
    places = torch.empty(sample.num_rows, dtype=torch.long)
    places[sample.order] = torch.arange(len(sample.order))
    return places[asked]


def products(keys: Float[Tensor, "N size"], targets: Float[Tensor, "N value"]) -> list[Float[Tensor, "N _"]]:
    """x, x^2, y x and y x^2 of every dimension and output."""
    powers = [keys, keys.square()]
    return powers + [(targets[:, :, None] * power[:, None]).flatten(1) for power in powers]


def slopes_of(places: Float[Tensor, "Q size"], means: Float[Tensor, "Q products"]) -> Float[Tensor, "Q value size"]:
    """How each prediction moves with the logarithm of each bandwidth, from the means around each place."""
    size = places.shape[1]
    num = (means.shape[1] - 2 * size) // (1 + 2 * size)
    read, first, second, *crossed = means.split([num, size, size, num * size, num * size], dim=-1)
    crossed_first, crossed_second = (part.unflatten(1, (num, size)) for part in crossed)
    squares = places.square() - 2 * places * first + second
    near, read = places[:, None], read[:, :, None]
    return near.square() * read - 2 * near * crossed_first + crossed_second - read * squares[:, None]


FACTORS = tuple(2.0**power for power in range(-5, 4))
"""Multiples of the rule of thumb among which descent starts at the best."""
SMALLEST_BATCH = 64
"""Fewer inputs than this say more about their noise than about the bandwidth."""
TRIAL = 8
"""Batches on which each start is tried."""
CHEAPER = 8
"""How many pairs by moments cost as much as one by autograd."""


def is_other(query: Int[Tensor, "..."], key: Int[Tensor, "..."]) -> Tensor:
    """Whether these are two different training inputs."""
    return query != key


OTHERS = predicate(is_other)


@dataclass(frozen=True, kw_only=True)
class LeaveOneOut:
    """How a bandwidth is learned.

    `widths` is "one" for all dimensions, or "per_dimension". `pairs` bounds the cost of a step, batch x training
    inputs, as far as enough inputs are left in a batch. `mask` says whom a training input may attend to; None lets it
    see itself, and the bandwidth falls to nothing.
    """

    widths: str = "one"
    steps: int = 100
    rate: float = 0.1
    pairs: int = 2**21
    mask: ComposableMask | None = field(default=OTHERS, repr=False)

    def __post_init__(self) -> None:
        if self.widths not in ("one", "per_dimension"):
            raise ValueError(f"widths is {self.widths!r}, expected 'one' or 'per_dimension'.")
        if self.steps < 1 or self.pairs < 1 or not self.rate > 0:
            raise ValueError(
                f"steps is {self.steps}, pairs {self.pairs}, rate {self.rate}: expected positive numbers, such as "
                f"LeaveOneOut(steps=100, pairs=2**21, rate=0.1)."
            )


@dataclass(frozen=True, kw_only=True)
class Lesson:
    """The training set in the order in which its batches are taken."""

    inputs: Float[Tensor, "N size"]
    targets: Float[Tensor, "N value"]
    log_weights: Float[Tensor, " N"]
    kernel: Kernel
    mask: ComposableMask | None
    by_moments: bool

    def loss(self, log_bandwidth: Float[Tensor, "..."], rows: slice) -> Float[Tensor, ""]:
        """Mean squared error at these inputs, predicted from all that the mask lets them see."""
        # the last query of a read meets its last key: with the batch at the end, the diagonal is each input's own
        keys, values, log_weights = (
            torch.roll(part, -rows.stop, dims=0) for part in (self.inputs, self.targets, self.log_weights)
        )
        scale = torch.exp(-log_bandwidth)
        score, align = attention_of(self.kernel, log_weights)
        queries, weights = self.inputs[rows] * scale, self.log_weights[rows].exp()
        read = attend(queries, keys * scale, values, score=score, align=align, mask=self.mask).context
        errors = (self.targets[rows] - read).square().mean(dim=-1)
        return (errors * weights).sum() / weights.sum()

    def loss_and_slope(
        self, log_bandwidth: Float[Tensor, "..."], rows: slice
    ) -> tuple[Float[Tensor, ""], Float[Tensor, "..."]]:
        """That error and its slope: by autograd, or for the Gaussian kernel and many inputs the same by moments."""
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
    leaves_out = isinstance(how.mask, Predicate) and how.mask.function is is_other
    by_moments = leaves_out and not kernel.compact and num**2 > how.pairs
    pairs = how.pairs * (CHEAPER if by_moments else 1)
    # on a grid it is the keys that cost, not those who ask
    batch = num if by_moments and size == 1 else min(max(pairs // num, SMALLEST_BATCH), num)
    order = torch.randperm(num, generator=generator) if batch < num else torch.arange(num)
    lesson = Lesson(
        inputs=within_reach(inputs)[order],
        targets=standardised(targets)[order],
        log_weights=log_weights[order],
        kernel=kernel,
        mask=how.mask,
        by_moments=by_moments,
    )
    batches = [slice(first, min(first + batch, num)) for first in range(0, num, batch)]
    return descend(lesson, how, first_guess(lesson, how, batches[:TRIAL]), batches).exp()


def first_guess(lesson: Lesson, how: LeaveOneOut, batches: list[slice]) -> Float[Tensor, "..."]:
    """The best multiple of Scott's rule of thumb, spread * n^(-1 / (d + 4)), as a logarithm."""
    num, size = lesson.inputs.shape
    spreads = robust_spreads(lesson.inputs)
    if how.widths == "one":
        spreads = spreads.square().mean().sqrt()
    thumb = (torch.where(spreads > 0, spreads, 1.0) * num ** (-1 / (size + 4))).log()
    guesses = [thumb + math.log(factor) for factor in FACTORS]
    losses = [sum(float(lesson.loss_and_slope(guess, rows)[0]) for rows in batches) for guess in guesses]
    return guesses[min(range(len(guesses)), key=losses.__getitem__)]


def descend(
    lesson: Lesson, how: LeaveOneOut, start: Float[Tensor, "..."], batches: list[slice]
) -> Float[Tensor, "..."]:
    """Adam on the logarithm of the bandwidth; the mean of the last quarter of its path, where batches are noise."""
    log_bandwidth = start.clone().requires_grad_()
    optimiser = torch.optim.Adam([log_bandwidth], lr=how.rate)
    schedule = torch.optim.lr_scheduler.CosineAnnealingLR(optimiser, T_max=how.steps, eta_min=how.rate / 20)
    path = []
    for step in range(how.steps):
        _, slope = lesson.loss_and_slope(log_bandwidth.detach(), batches[step % len(batches)])
        # with nobody to attend to there is nothing to learn from
        log_bandwidth.grad = slope.nan_to_num(nan=0.0, posinf=0.0, neginf=0.0)
        optimiser.step()
        schedule.step()
        path.append(log_bandwidth.detach().clone())
    return torch.stack(path[-max(how.steps // 4, 1) :]).mean(dim=0)


def within_reach(inputs: Float[Tensor, "N size"]) -> Float[Tensor, "N size"]:
    """Inputs from their median; a lonely outlier is as lonely 1000 spreads away, and squares keep their digits."""
    centred = inputs - inputs[:: max(len(inputs) // 4096, 1)].median(dim=0).values
    limits = 1000 * robust_spreads(inputs)
    return centred.clamp(-limits, limits)


def robust_spreads(inputs: Float[Tensor, "N size"]) -> Float[Tensor, " size"]:
    """The standard deviation, or what quartiles say it is where outliers have blown it up (Silverman 1986, 3.4.2)."""
    some = inputs[:: max(len(inputs) // 4096, 1)]
    low, high = torch.quantile(some, torch.tensor([0.25, 0.75], dtype=some.dtype), dim=0)
    spreads, middle = inputs.std(dim=0, correction=0), (high - low) / 1.349
    return torch.where(middle > 0, torch.minimum(spreads, middle), spreads)


def standardised(targets: Float[Tensor, "N value"]) -> Float[Tensor, "N value"]:
    """Targets of mean 0 and spread 1, so that every output counts the same."""
    spreads = targets.std(dim=0, correction=0)
    return (targets - targets.mean(dim=0)) / torch.where(spreads > 0, spreads, 1.0)
