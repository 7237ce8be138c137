"""The leave-one-out loss of the Gaussian kernel and its slope in the bandwidth, without autograd.

With p_ij the weight of row j in the prediction f_i and u_ij = (x_i - x_j) / h in one dimension,

    d f_i / d log h = sum_j p_ij u_ij^2 y_j - f_i sum_j p_ij u_ij^2

and u^2 = x_i^2 - 2 x_i x_j + x_j^2 (in bandwidths). So the attention that predicts y, with x, x^2, x y and x^2 y as
further values, gives the slope as well: faster than a backward pass through attention. In one dimension a grid sums
u^2 exp(-1/2 u^2) directly.

Shapes: N training rows, Q rows to predict.
"""

import torch
from jaxtyping import Float, Int
from torch import Tensor

from regard.regression import grid
from regard.regression.exact import predict_exact
from regard.regression.grid import grid_sums
from regard.regression.kernels import KERNELS
from regard.regression.training_set import TrainingSet, prepare_training_set


def loss_and_slope(
    inputs: Float[Tensor, "N size"],
    targets: Float[Tensor, "N value"],
    weights: Float[Tensor, " N"],
    log_bandwidth: Float[Tensor, "..."],
    rows: slice,
) -> tuple[Float[Tensor, ""], Float[Tensor, "..."]]:
    """Mean squared error of these rows, each predicted from all others, and its slope in the logarithm."""
    indices = torch.arange(len(inputs))[rows]
    predict = predict_by_grid if inputs.shape[1] == 1 else predict_by_moments
    predictions, slopes = predict(inputs, targets, weights, log_bandwidth.exp(), indices)
    errors, counts = predictions - targets[rows], weights[rows] / weights[rows].sum()
    loss = (counts * errors.square().mean(dim=-1)).sum()
    # (rows, value, 1) times (rows, value, size): the mean over outputs, then the weighted sum over rows
    slope = (counts[:, None] * 2 * (errors[:, :, None] * slopes).mean(dim=1)).sum(dim=0)
    # one bandwidth for all dimensions: its slope is the sum of theirs
    return loss, slope if log_bandwidth.ndim else slope.sum()


def predict_by_moments(
    inputs: Float[Tensor, "N size"],
    targets: Float[Tensor, "N value"],
    weights: Float[Tensor, " N"],
    bandwidth: Float[Tensor, "..."],
    rows: Int[Tensor, " Q"],
) -> tuple[Float[Tensor, "Q value"], Float[Tensor, "Q value size"]]:
    """Leave-one-out predictions of these rows, and their slopes in the logarithm of each bandwidth."""
    keys = inputs / bandwidth
    # one pass over the keys for the prediction and all moments
    values = torch.cat([targets, *moment_values(keys, targets)], dim=-1)
    training_set = prepare_training_set(inputs.numpy(), values.numpy(), weights.numpy(), bandwidth.numpy())
    queries = training_set.scale_inputs(inputs[rows].numpy())
    excluded = find_keys(rows, training_set)
    context = predict_exact(queries, training_set, KERNELS["gaussian"], excluded=excluded)
    means = torch.from_numpy(training_set.unscale_targets(context.numpy()))
    return means[:, : targets.shape[1]], slopes_from_means(keys[rows], means)


def predict_by_grid(
    inputs: Float[Tensor, "N 1"],
    targets: Float[Tensor, "N value"],
    weights: Float[Tensor, " N"],
    bandwidth: Float[Tensor, "..."],
    rows: Int[Tensor, " Q"],
) -> tuple[Float[Tensor, "Q value"], Float[Tensor, "Q value 1"]]:
    """The same in one dimension by a grid; by moments where the grid is not accurate or does not pay off."""
    training_set = prepare_training_set(inputs.numpy(), targets.numpy(), weights.numpy(), bandwidth.numpy())
    queries = training_set.scale_inputs(inputs[rows].numpy())
    result = grid_sums(queries, training_set, grid.gaussian, grid.squared_gaussian)
    if result is None:
        return predict_by_moments(inputs, targets, weights, bandwidth, rows)
    # training rows are keys themselves: all of them are near a key, and every row has a sum
    # each row's own key is at distance 0: it adds its mass to the first sum, exp(0) = 1, and nothing to the second
    sums = torch.from_numpy(result.sums[0] - result.masses[:, find_keys(rows, training_set).numpy()])
    total, squares = sums[-1], torch.from_numpy(result.sums[1])
    is_accurate = total > result.lowest
    context = sums[:-1] / total
    # the quotient rule: numerator and denominator both depend on the bandwidth
    scaled_slopes = (squares[:-1] - context * squares[-1]) / total
    predictions = torch.from_numpy(training_set.unscale_targets(context.T.numpy()))
    slopes = (torch.from_numpy(training_set.spread)[:, None] * scaled_slopes).T[:, :, None].contiguous()
    if not is_accurate.all():
        rest = predict_by_moments(inputs, targets, weights, bandwidth, rows[~is_accurate])
        predictions[~is_accurate], slopes[~is_accurate] = rest
    return predictions, slopes


def find_keys(rows: Int[Tensor, " Q"], training_set: TrainingSet) -> Int[Tensor, " Q"]:
    """The indices of training rows among the sorted keys."""
    indices = torch.empty(training_set.num_rows, dtype=torch.long)
    indices[training_set.order] = torch.arange(len(training_set.order))
    return indices[rows]


def moment_values(keys: Float[Tensor, "N size"], targets: Float[Tensor, "N value"]) -> list[Float[Tensor, "N _"]]:
    """x, x^2, y x and y x^2 of every dimension and output."""
    powers = [keys, keys.square()]
    return powers + [(targets[:, :, None] * power[:, None]).flatten(1) for power in powers]


def slopes_from_means(
    positions: Float[Tensor, "Q size"], means: Float[Tensor, "Q products"]
) -> Float[Tensor, "Q value size"]:
    """The slope of each prediction in the logarithm of each bandwidth, from the means of y and `moment_values`."""
    size = positions.shape[1]
    # there are num + 2 size + 2 num size columns
    num = (means.shape[1] - 2 * size) // (1 + 2 * size)
    predictions, first, second, *crossed = means.split([num, size, size, num * size, num * size], dim=-1)
    crossed_first, crossed_second = (part.unflatten(1, (num, size)) for part in crossed)
    # sum_j p_ij u_ij^2, expanded
    squares = positions.square() - 2 * positions * first + second
    x, y = positions[:, None], predictions[:, :, None]
    return x.square() * y - 2 * x * crossed_first + crossed_second - y * squares[:, None]
