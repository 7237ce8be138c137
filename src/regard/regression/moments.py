"""The leave-one-out loss of the Gaussian kernel and its slope, without autograd: means are all it takes.

With p_ij the weight of j in the prediction f_i and u_ij = (x_i - x_j) / h in one dimension,

    d f_i / d log h = sum_j p_ij u_ij^2 y_j - f_i sum_j p_ij u_ij^2

and u^2 = x_i^2 - 2 x_i x_j + x_j^2 (in bandwidths), so that the same read which predicts y, asked also for the means of
x, x^2, x y and x^2 y, gives the slope: faster than going back through attention. In one dimension a grid gives them.
"""

import torch
from jaxtyping import Float, Int
from torch import Tensor

from regard.regression import grid
from regard.regression.binned import grid_sums
from regard.regression.exact import read_exact
from regard.regression.kernels import KERNELS
from regard.regression.sample import Sample, prepare_sample


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
