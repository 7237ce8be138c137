"""Gaussian smoothing on a line in linear time, by the fast Fourier transform on a grid.

Smoothing on a line by the fast Fourier transform: masses at any places, their Gaussian sum at any others.

    F(x) = sum_i mass_i K(x - x_i),   K(u) = exp(-1/2 u^2)   or   u^2 exp(-1/2 u^2)

Masses are spread over the cells of an even grid with a narrow smooth window, the grid is multiplied in the Fourier
domain by the kernel's transform over the window's transform twice, and the same window reads the result at the
queries: a nonuniform FFT there and back, with the "exponential of semicircle" window of Barnett, Magland and af
Klinteberg 2019, https://arxiv.org/abs/1808.06736, section 3. Errs by 1e-12 of F, and by rounding of the highest F.

One dimension, many points: Gaussian Nadaraya-Watson in linear time on a grid.

Numerator and denominator are both sums of Gaussians, which a grid gives in O(keys + queries + cells log cells). It errs
by rounding of the highest sum, so where the denominator is small beside that (far from all keys, in a gap, among keys
of tiny weight) the query is read exactly instead. An empty stretch between keys is cut to the length that keeps its
two ends from feeling each other: one outlier costs a few cells, not a grid as long as its distance.
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

from regard.regression.exact import read_exact
from regard.regression.kernels import KERNELS
from regard.regression.training_set import Sample

Transform: TypeAlias = Callable[[Float[np.ndarray, " F"]], Float[np.ndarray, " F"]]

CELLS = 8
"""Cells to a bandwidth."""
WIDTH = 12
"""Cells that a mass is spread over."""
HIGHEST = 8.6
"""Frequency, in radians a bandwidth, from which a Gaussian's transform is below rounding error."""
SHAPE = 0.976 * math.pi * WIDTH * (1 - HIGHEST / (2 * math.pi * CELLS))
CHUNK = 4096
"""Places handled at a time, so that their cells stay in the cache."""


def num_cells(length: float) -> int:
    """Cells of a ring on which a stretch of that many bandwidths and the windows at its ends find room."""
    return int(fft.next_fast_len(math.ceil(length * CELLS) + 2 * WIDTH, real=True))


def gaussian(frequencies: Float[np.ndarray, " F"]) -> Float[np.ndarray, " F"]:
    """The Fourier transform of exp(-1/2 u^2)."""
    return math.sqrt(2 * math.pi) * np.exp(-(frequencies**2) / 2)


def squared_gaussian(frequencies: Float[np.ndarray, " F"]) -> Float[np.ndarray, " F"]:
    """The Fourier transform of u^2 exp(-1/2 u^2), the slope of the Gaussian in the logarithm of its width."""
    return (1 - frequencies**2) * gaussian(frequencies)


def smooth(
    places: Float[np.ndarray, " N"], masses: Float[np.ndarray, "rows N"], num: int, *transforms: Transform
) -> list[Float[np.ndarray, "rows cells"]]:
    """What `read` reads, for each kernel; places are in bandwidths from the start of a ring of `num` cells."""
    spectrum = fft.rfft(spread(places, masses, num), axis=1)
    frequencies = 2 * math.pi / num * np.arange(spectrum.shape[1])
    top = int(np.searchsorted(frequencies, HIGHEST / CELLS))
    spectrum[:, :top] /= window_transform(frequencies[:top]) ** 2
    smoothed = []
    for transform in transforms:
        product = np.zeros_like(spectrum)
        product[:, :top] = spectrum[:, :top] * (CELLS * transform(frequencies[:top] * CELLS))
        smoothed.append(fft.irfft(product, n=num, axis=1))
    return smoothed


def spread(
    places: Float[np.ndarray, " N"], masses: Float[np.ndarray, "rows N"], num: int
) -> Float[np.ndarray, "rows cells"]:
    """Each mass over the cells around its place."""
    grid = np.zeros((len(masses), num))
    for start in range(0, len(places), CHUNK):
        cells, window = taps(places[start : start + CHUNK])
        first = int(cells.min())
        flat = (cells - first).ravel()
        for row, mass in zip(grid, masses[:, start : start + CHUNK], strict=True):
            part = np.bincount(flat, weights=(window * mass).ravel())
            row[first : first + len(part)] += part
    return grid


def read(smoothed: Float[np.ndarray, "rows cells"], places: Float[np.ndarray, " Q"]) -> Float[np.ndarray, "rows Q"]:
    """The sums at other places."""
    sums = np.empty((len(smoothed), len(places)))
    for start in range(0, len(places), CHUNK):
        cells, window = taps(places[start : start + CHUNK])
        for row, grid in zip(sums, smoothed, strict=True):
            row[start : start + CHUNK] = np.einsum("ij,ij->j", np.take(grid, cells), window)
    return sums


def taps(places: Float[np.ndarray, " N"]) -> tuple[Int[np.ndarray, "taps N"], Float[np.ndarray, "taps N"]]:
    """The cells around each place, and the window's value at each of them."""
    places = places * CELLS + WIDTH
    first = np.ceil(places - WIDTH / 2)
    steps = np.arange(WIDTH)[:, None]
    window = (first - places) * (2 / WIDTH) + steps * (2 / WIDTH)
    return first.astype(np.int64) + steps, semicircle(window)


def semicircle(places: Float[np.ndarray, "*shape"]) -> Float[np.ndarray, "*shape"]:
    """exp(shape (sqrt(1 - z^2) - 1)) on [-1, 1], written over its argument."""
    np.multiply(places, places, out=places)
    np.subtract(1, places, out=places)
    np.maximum(places, 0, out=places)
    np.sqrt(places, out=places)
    places -= 1
    places *= SHAPE
    return np.exp(places, out=places)


def window_transform(frequencies: Float[np.ndarray, " F"]) -> Float[np.ndarray, " F"]:
    """The window's Fourier transform by Gauss-Legendre quadrature; frequencies in radians a cell."""
    nodes, weights = legendre_nodes()
    total = np.zeros_like(frequencies)
    for node, weight in zip(nodes, weights, strict=True):
        total += weight * np.cos(frequencies * node)
    return total


def legendre_nodes(num: int = 48) -> tuple[Float[np.ndarray, " half"], Float[np.ndarray, " half"]]:
    """Nodes on the right half of the window, in cells, and what each counts; the left half is its mirror."""
    nodes, weights = np.polynomial.legendre.leggauss(num)
    nodes, weights = nodes[num // 2 :], weights[num // 2 :]
    return nodes * (WIDTH / 2), WIDTH * weights * semicircle(nodes.copy())


NEAR = 6.0
"""Bandwidths from the nearest key up to which the grid is asked: farther, exp(-18) of a weight is left."""
SILENCE = NEAR + 9.0
"""Bandwidths that separate: a query near one key does not feel another beyond, exp(-40)."""
MANY_CELLS = 2**20
"""A grid this long costs a tenth of a second; a longer one pays only if there are half as many keys and queries."""
FLOOR = 1e-14
"""Error of the grid, of the highest sum."""
TOLERANCE = 1e-8
"""Error of a prediction, of the targets' typical deviation, from which a query is read exactly."""


@dataclass(frozen=True)
class Sums:
    """What the grid gives: for each transform, sums of values and of weights at the queries that are `near` a key.

    A sum of weights below `lowest` is not to be trusted.
    """

    near: Bool[np.ndarray, " Q"]
    sums: list[Float[np.ndarray, "rows near"]]
    masses: Float[np.ndarray, "rows K"]
    lowest: float


def read_binned(
    queries: Float[Tensor, "Q 1"], sample: Sample, *, dtype: torch.dtype = torch.float64
) -> Float[Tensor, "Q value"]:
    """The Gaussian-weighted mean of the values at each query."""
    found = grid_sums(queries, sample, gaussian)
    if found is None:
        return read_exact(queries, sample, KERNELS["gaussian"], dtype=dtype)
    (sums,), near = found.sums, found.near
    trusted = sums[-1] > found.lowest
    near[near] = trusted
    context = np.empty((len(queries), len(sums) - 1))
    context[near] = (sums[:-1, trusted] / sums[-1, trusted]).T
    if not near.all():
        rest = torch.from_numpy(queries.numpy()[~near])
        context[~near] = read_exact(rest, sample, KERNELS["gaussian"], dtype=dtype).numpy()
    return torch.from_numpy(context)


def grid_sums(queries: Float[Tensor, "Q 1"], sample: Sample, *transforms: Transform) -> Sums | None:
    """Sums over all keys, or None where keys are so thin on the line that a grid does not pay."""
    keys, places = sample.keys[:, 0].numpy(), queries[:, 0].numpy()
    cut = cuts(keys)
    num = num_cells(float(keys[-1] - keys[0] - cut[-1]) + SILENCE)
    if num > max(MANY_CELLS, 2 * (len(keys) + len(places))):
        return None
    masses = sample.values.numpy() * np.exp(sample.log_weights.numpy())
    line, start = keys - cut, keys[0] - NEAR
    on_line, near = mapped(places, keys, cut)
    smoothed = np.concatenate(smooth(line - start, masses, num, *transforms))
    sums = np.split(read(smoothed, on_line[near] - start), len(transforms))
    return Sums(near, sums, masses, lowest_trusted(line - start, masses))


def cuts(keys: Float[np.ndarray, " K"]) -> Float[np.ndarray, " K"]:
    """How much empty line is cut out before each key."""
    excess = np.maximum(np.diff(keys, prepend=keys[0]) - SILENCE, 0.0)
    return np.cumsum(excess)


def mapped(
    places: Float[np.ndarray, " Q"], keys: Float[np.ndarray, " K"], cut: Float[np.ndarray, " K"]
) -> tuple[Float[np.ndarray, " Q"], Bool[np.ndarray, " Q"]]:
    """Where queries lie after the cuts, and which of them are near a key."""
    if cut[-1] == 0:
        return places, (places >= keys[0] - NEAR) & (places <= keys[-1] + NEAR)
    after = np.searchsorted(keys, places).clip(1, len(keys) - 1)
    nearest = after - (places - keys[after - 1] <= keys[after] - places)
    return places - cut[nearest], np.abs(places - keys[nearest]) <= NEAR


def lowest_trusted(keys: Float[np.ndarray, " K"], masses: Float[np.ndarray, "rows K"]) -> float:
    """The denominator below which the grid's error shows in some output."""
    cells = keys.astype(np.int64)
    lowest = 0.0
    for mass in masses[:-1]:
        # no Gaussian sum is more than 6 times what lies in the fullest bandwidth
        highest = 6 * np.bincount(cells, weights=np.abs(mass)).max()
        deviations = np.abs(mass[mass != 0] / masses[-1][mass != 0])
        typical = np.median(deviations) if len(deviations) else 1.0
        lowest = max(lowest, highest / typical)
    lowest = max(lowest, 6 * np.bincount(cells, weights=masses[-1]).max())
    return float(FLOOR / TOLERANCE * lowest)
