"""Smoothing on a line by the fast Fourier transform: masses at any places, their Gaussian sum at any others.

    F(x) = sum_i mass_i K(x - x_i),   K(u) = exp(-1/2 u^2)   or   u^2 exp(-1/2 u^2)

Masses are spread over the cells of an even grid with a narrow smooth window, the grid is multiplied in the Fourier
domain by the kernel's transform over the window's transform twice, and the same window reads the result at the
queries: a nonuniform FFT there and back, with the "exponential of semicircle" window of Barnett, Magland and af
Klinteberg 2019, https://arxiv.org/abs/1808.06736, section 3. Errs by 1e-12 of F, and by rounding of the highest F.
"""

import math
from collections.abc import Callable
from typing import TypeAlias

import numpy as np
from jaxtyping import Float, Int
from scipy import fft

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
