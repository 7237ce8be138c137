"""One dimension, many points: Gaussian Nadaraya-Watson in linear time on a grid.

Numerator and denominator are both sums of Gaussians, which a grid gives in O(keys + queries + cells log cells). It errs
by rounding of the highest sum, so where the denominator is small beside that (far from all keys, in a gap, among keys
of tiny weight) the query is read exactly instead. An empty stretch between keys is cut to the length that keeps its
two ends from feeling each other: one outlier costs a few cells, not a grid as long as its distance.
"""

from dataclasses import dataclass

import numpy as np
import torch
from jaxtyping import Bool, Float
from torch import Tensor

from regard.regression import grid
from regard.regression.exact import read_exact
from regard.regression.kernels import KERNELS
from regard.regression.sample import Sample

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
    found = grid_sums(queries, sample, grid.gaussian)
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


def grid_sums(queries: Float[Tensor, "Q 1"], sample: Sample, *transforms: grid.Transform) -> Sums | None:
    """Sums over all keys, or None where keys are so thin on the line that a grid does not pay."""
    keys, places = sample.keys[:, 0].numpy(), queries[:, 0].numpy()
    cut = cuts(keys)
    num = grid.num_cells(float(keys[-1] - keys[0] - cut[-1]) + SILENCE)
    if num > max(MANY_CELLS, 2 * (len(keys) + len(places))):
        return None
    masses = sample.values.numpy() * np.exp(sample.log_weights.numpy())
    line, start = keys - cut, keys[0] - NEAR
    on_line, near = mapped(places, keys, cut)
    smoothed = np.concatenate(grid.smooth(line - start, masses, num, *transforms))
    sums = np.split(grid.read(smoothed, on_line[near] - start), len(transforms))
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
