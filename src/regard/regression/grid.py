"""Gaussian Nadaraya-Watson regression in one dimension in linear time, by the fast Fourier transform on a grid.

    F(x) = sum_i mass_i K(x - x_i),   K(u) = exp(-1/2 u^2)   or   u^2 exp(-1/2 u^2)

Numerator and denominator of the regression are both such sums, in O(keys + queries + cells log cells). Masses are
spread over the cells of an even grid with a narrow smooth window, the grid is multiplied in the Fourier domain by the
kernel's transform over the square of the window's transform, and the same window interpolates the result at the
queries. This is a nonuniform FFT there and back, with the "exponential of semicircle" window of Barnett, Magland and
af Klinteberg 2019, https://arxiv.org/abs/1808.06736, section 3. Its error is 1e-12 of F, plus the rounding error of the
highest F.

Where the denominator is small beside the highest (far from all keys, in a gap, among keys of tiny weight), the query is
predicted exactly instead. An empty stretch between keys is shortened to the length at which its two ends have no weight
on each other: one outlier costs a few cells, not a grid as long as its distance.
"""

import math
from collections.abc import Callable
from dataclasses import dataclass
from typing import TypeAlias

import numpy as np
import torch
from jaxtyping import Bool, Float, Int
from scipy import fft
from torch import Tensor

from regard.regression.exact import predict_exact
from regard.regression.kernels import KERNELS
from regard.regression.training_set import TrainingSet

Transform: TypeAlias = Callable[[Float[np.ndarray, " F"]], Float[np.ndarray, " F"]]

CELLS = 8
"""Cells per bandwidth."""
WIDTH = 12
"""Cells over which a mass is spread."""
HIGHEST = 8.6
"""Frequency, in radians per bandwidth, above which a Gaussian's transform is below rounding error."""
SHAPE = 0.976 * math.pi * WIDTH * (1 - HIGHEST / (2 * math.pi * CELLS))
"""Decay of the window for its width and the cells per bandwidth."""
CHUNK = 4096
"""Positions processed at a time, so that their cells stay in the cache."""
NEAR = 6.0
"""Bandwidths from the nearest key up to which the grid is used: farther, only exp(-18) of a weight is left."""
SEPARATION = NEAR + 9.0
"""Length to which gaps are shortened: a query near one end has a weight of exp(-40) at the other."""
MANY_CELLS = 2**20
"""A grid of this length takes a tenth of a second; longer ones need half as many keys and queries to pay off."""
FLOOR = 1e-14
"""Error of the grid, relative to the highest sum."""
TOLERANCE = 1e-8
"""Error of a prediction, relative to the targets' typical deviation, above which a query is predicted exactly."""


def num_cells(length: float) -> int:
    """Cells of a ring for this many bandwidths and the windows at both ends, rounded up to a length with a fast FFT."""
    return int(fft.next_fast_len(math.ceil(length * CELLS) + 2 * WIDTH, real=True))


def gaussian(frequencies: Float[np.ndarray, " F"]) -> Float[np.ndarray, " F"]:
    """The Fourier transform of exp(-1/2 u^2)."""
    return math.sqrt(2 * math.pi) * np.exp(-(frequencies**2) / 2)


def squared_gaussian(frequencies: Float[np.ndarray, " F"]) -> Float[np.ndarray, " F"]:
    """The Fourier transform of u^2 exp(-1/2 u^2), the slope of the Gaussian in the logarithm of its width."""
    return (1 - frequencies**2) * gaussian(frequencies)


def smooth_masses(
    positions: Float[np.ndarray, " N"], masses: Float[np.ndarray, "rows N"], num: int, *transforms: Transform
) -> list[Float[np.ndarray, "rows cells"]]:
    """The grid of sums for each kernel; positions are in bandwidths from the start of a ring of `num` cells."""
    spectrum = fft.rfft(spread(positions, masses, num), axis=1)
    # radians per cell
    frequencies = 2 * math.pi / num * np.arange(spectrum.shape[1])
    # above `top` the product is 0: the division there would only amplify rounding errors
    top = int(np.searchsorted(frequencies, HIGHEST / CELLS))
    # squared: once for spreading, once for interpolating
    spectrum[:, :top] /= window_transform(frequencies[:top]) ** 2
    smoothed = []
    for transform in transforms:
        product = np.zeros_like(spectrum)
        # K(c / CELLS), a function of c cells, has the transform CELLS T(CELLS f), with T the transform of K
        product[:, :top] = spectrum[:, :top] * (CELLS * transform(frequencies[:top] * CELLS))
        smoothed.append(fft.irfft(product, n=num, axis=1))
    return smoothed


def spread(
    positions: Float[np.ndarray, " N"], masses: Float[np.ndarray, "rows N"], num: int
) -> Float[np.ndarray, "rows cells"]:
    """Spread each mass over the cells around its position."""
    grid = np.zeros((len(masses), num))
    for start in range(0, len(positions), CHUNK):
        cells, window = taps(positions[start : start + CHUNK])
        # keys are sorted, so a chunk fills a short stretch: bincount over that, not over the whole grid
        first = int(cells.min())
        flat = (cells - first).ravel()
        for row, mass in zip(grid, masses[:, start : start + CHUNK], strict=True):
            part = np.bincount(flat, weights=(window * mass).ravel())
            row[first : first + len(part)] += part
    return grid


def interpolate(
    smoothed: Float[np.ndarray, "rows cells"], positions: Float[np.ndarray, " Q"]
) -> Float[np.ndarray, "rows Q"]:
    """The sums at other positions."""
    sums = np.empty((len(smoothed), len(positions)))
    for start in range(0, len(positions), CHUNK):
        cells, window = taps(positions[start : start + CHUNK])
        for row, grid in zip(sums, smoothed, strict=True):
            row[start : start + CHUNK] = np.einsum("ij,ij->j", np.take(grid, cells), window)
    return sums


def taps(positions: Float[np.ndarray, " N"]) -> tuple[Int[np.ndarray, "taps N"], Float[np.ndarray, "taps N"]]:
    """The cells around each position, and the window's value at each of them."""
    # WIDTH cells in front, so that the window of the first position stays on the grid
    positions = positions * CELLS + WIDTH
    first = np.ceil(positions - WIDTH / 2)
    steps = np.arange(WIDTH)[:, None]
    window = (first - positions) * (2 / WIDTH) + steps * (2 / WIDTH)
    return first.astype(np.int64) + steps, semicircle(window)


def semicircle(z: Float[np.ndarray, "*shape"]) -> Float[np.ndarray, "*shape"]:
    """exp(SHAPE (sqrt(1 - z^2) - 1)) on [-1, 1], which overwrites its argument."""
    np.multiply(z, z, out=z)
    np.subtract(1, z, out=z)
    # rounding may put |z| above 1
    np.maximum(z, 0, out=z)
    np.sqrt(z, out=z)
    z -= 1
    z *= SHAPE
    return np.exp(z, out=z)


def window_transform(frequencies: Float[np.ndarray, " F"]) -> Float[np.ndarray, " F"]:
    """The window's Fourier transform by Gauss-Legendre quadrature; frequencies in radians per cell."""
    # the window is smooth and even: 24 nodes on half of it reach rounding error
    nodes, weights = legendre_nodes()
    total = np.zeros_like(frequencies)
    for node, weight in zip(nodes, weights, strict=True):
        total += weight * np.cos(frequencies * node)
    return total


def legendre_nodes(num: int = 48) -> tuple[Float[np.ndarray, " half"], Float[np.ndarray, " half"]]:
    """Nodes on the right half of the window, in cells, and their weights; the left half is its mirror image."""
    nodes, weights = np.polynomial.legendre.leggauss(num)
    nodes, weights = nodes[num // 2 :], weights[num // 2 :]
    return nodes * (WIDTH / 2), WIDTH * weights * semicircle(nodes.copy())


@dataclass(frozen=True)
class GridSums:
    """For each transform, the sums of values and of weights at the queries that are `near` a key.

    A sum of weights below `lowest` is not accurate enough.
    """

    near: Bool[np.ndarray, " Q"]
    sums: list[Float[np.ndarray, "rows near"]]
    masses: Float[np.ndarray, "rows K"]
    lowest: float


def predict_binned(
    queries: Float[Tensor, "Q 1"], training_set: TrainingSet, *, dtype: torch.dtype = torch.float64
) -> Float[Tensor, "Q value"]:
    """The Gaussian-weighted mean of the values at each query."""
    result = grid_sums(queries, training_set, gaussian)
    if result is None:
        return predict_exact(queries, training_set, KERNELS["gaussian"], dtype=dtype)
    (sums,), near = result.sums, result.near
    is_accurate = sums[-1] > result.lowest
    # only queries near a key have sums
    near[near] = is_accurate
    context = np.empty((len(queries), len(sums) - 1))
    context[near] = (sums[:-1, is_accurate] / sums[-1, is_accurate]).T
    if not near.all():
        rest = torch.from_numpy(queries.numpy()[~near])
        context[~near] = predict_exact(rest, training_set, KERNELS["gaussian"], dtype=dtype).numpy()
    return torch.from_numpy(context)


def grid_sums(queries: Float[Tensor, "Q 1"], training_set: TrainingSet, *transforms: Transform) -> GridSums | None:
    """Sums over all keys, or None where the keys are so sparse on the line that a grid does not pay off."""
    keys, positions = training_set.keys[:, 0].numpy(), queries[:, 0].numpy()
    cuts = gap_cuts(keys)
    # the ring is longer than the line, so that its ends have no weight on each other
    num = num_cells(float(keys[-1] - keys[0] - cuts[-1]) + SEPARATION)
    if num > max(MANY_CELLS, 2 * (len(keys) + len(positions))):
        return None
    masses = training_set.values.numpy() * np.exp(training_set.log_weights.numpy())
    line, start = keys - cuts, keys[0] - NEAR
    line_positions, near = map_queries(positions, keys, cuts)
    smoothed = np.concatenate(smooth_masses(line - start, masses, num, *transforms))
    sums = np.split(interpolate(smoothed, line_positions[near] - start), len(transforms))
    return GridSums(near, sums, masses, lowest_accurate(line - start, masses))


def gap_cuts(keys: Float[np.ndarray, " K"]) -> Float[np.ndarray, " K"]:
    """The total length that is cut out of the gaps before each key."""
    excess = np.maximum(np.diff(keys, prepend=keys[0]) - SEPARATION, 0.0)
    return np.cumsum(excess)


def map_queries(
    positions: Float[np.ndarray, " Q"], keys: Float[np.ndarray, " K"], cuts: Float[np.ndarray, " K"]
) -> tuple[Float[np.ndarray, " Q"], Bool[np.ndarray, " Q"]]:
    """Positions of the queries after the cuts, and which queries are near a key."""
    if cuts[-1] == 0:
        return positions, (positions >= keys[0] - NEAR) & (positions <= keys[-1] + NEAR)
    # each query moves with its nearest key
    after = np.searchsorted(keys, positions).clip(1, len(keys) - 1)
    nearest = after - (positions - keys[after - 1] <= keys[after] - positions)
    return positions - cuts[nearest], np.abs(positions - keys[nearest]) <= NEAR


def lowest_accurate(keys: Float[np.ndarray, " K"], masses: Float[np.ndarray, "rows K"]) -> float:
    """The denominator below which the grid's error exceeds TOLERANCE in some output."""
    cells = keys.astype(np.int64)
    lowest = 0.0
    for mass in masses[:-1]:
        # no Gaussian sum is more than 6 times the mass in the fullest bandwidth
        highest = 6 * np.bincount(cells, weights=np.abs(mass)).max()
        deviations = np.abs(mass[mass != 0] / masses[-1][mass != 0])
        typical = np.median(deviations) if len(deviations) else 1.0
        lowest = max(lowest, highest / typical)
    lowest = max(lowest, 6 * np.bincount(cells, weights=masses[-1]).max())
    return float(FLOOR / TOLERANCE * lowest)
