"""The range of every hidden unit, and the sine series fitted to it.

tanh as a short sine series, fitted for every range of its argument.

    tanh(x) ~ sum_r c_r sin((2r - 1) w x),   |x| <= X,   w = pi / (2 L),   r = 1..R

L is the quarter period: the series folds back there. Where tanh is flat already (large X) L may be shorter than X, and
the terms it saves make the rest better; for small X it must be longer, since the fold leaves a slope of sech^2(L).
Small arguments are met more often than large ones, so errors there count more.

Rows made ready for kernels, and the range of every hidden unit, found on the device.
"""

import itertools
import math
from collections.abc import Hashable
from dataclasses import dataclass, replace
from functools import cache, lru_cache

import numpy as np
import torch
from jaxtyping import Float
from torch import Tensor

from regard.kernels.additive.reference import Rows
from regard.kernels.additive.shared_triton import ranges_kernel, settle_kernel
from regard.kernels.triton_support import launch, power_of_two

TERMS = 10
"""R: what a product of features costs, and how well the series fits."""
WIDEST = 11.0
"""The largest |x| that R terms fit better than half precision rounds."""
OCTAVES = (-8.0, 4.0)
"""Ranges are 2^(-8), 2^(-7.75) .. WIDEST: the first octave, and how many ranges an octave has."""
RANGES = (1.0, 2.0, 3.0, 4.0, 6.0, 8.0, 10.0, 12.0)
QUARTERS = (2.3, 2.9, 3.5, 4.2, 5.0, 5.7, 6.5, 7.2)
"""L that fits best for some X; in between it is interpolated, below it shrinks with X."""
CENTRE_WEIGHT = 2.0
SLOPE_WEIGHT = 0.3
POINTS, ROUNDS = 600, 4


@dataclass(frozen=True)
class Series:
    """One fit a row, for growing ranges."""

    frequency: Float[Tensor, " G"]
    coefficients: Float[Tensor, "G R"]


@cache
def series(device: torch.device) -> Series:
    """Every fit, on this device."""
    first, per_octave = OCTAVES
    count = math.ceil((math.log2(WIDEST) - first) * per_octave) + 1
    widths = [2.0 ** (first + step / per_octave) for step in range(count)]
    frequencies = [math.pi / (2 * quarter_period(width)) for width in widths]
    fits = [fit(width, frequency) for width, frequency in zip(widths, frequencies, strict=True)]
    return Series(
        frequency=torch.tensor(frequencies, dtype=torch.float32, device=device),
        coefficients=torch.from_numpy(np.stack(fits)).to(device, torch.float32),
    )


def quarter_period(width: float) -> float:
    """L for arguments up to `width`."""
    return float(np.interp(width, RANGES, QUARTERS)) if width > RANGES[0] else QUARTERS[0] * width


def fit(width: float, frequency: float, terms: int = TERMS) -> np.ndarray:
    """c_1 .. c_R: least squares of value and slope, with the largest errors weighted up round after round."""
    places = (np.arange(POINTS) + 0.5) * width / POINTS
    rates = (2 * np.arange(1, terms + 1) - 1) * frequency
    sines, slopes = np.sin(np.outer(places, rates)), np.cos(np.outer(places, rates)) * rates
    value, slope = np.tanh(places), np.cosh(places) ** -2.0
    importance = np.exp(-CENTRE_WEIGHT * (places / width) ** 2)
    weight = importance
    found = np.zeros(terms)
    for _ in range(ROUNDS):
        left = np.concatenate([sines * weight[:, None], SLOPE_WEIGHT * slopes * weight[:, None]])
        right = np.concatenate([value * weight, SLOPE_WEIGHT * slope * weight])
        found = np.linalg.lstsq(left, right, rcond=1e-12)[0]
        error = np.abs(sines @ found - value) * importance
        weight = weight * (0.5 + error / error.max())
        weight = weight / weight.max()
    return found


LARGEST_EXPONENT = 10.5
"""e^(2 * 10.5) to the fourth power is still a float32."""
RANGE_ROWS = 256


def prepared(rows: Rows) -> Rows:
    """Contiguous, with every row's own mask; values that nobody may read are 0, whatever they were."""
    num_rows = rows.queries.shape[0]
    made = {name: value.contiguous() for name, value in vars(rows).items() if isinstance(value, Tensor)}
    for name in ("low", "high", "real"):
        if name in made:
            made[name] = made[name].expand(num_rows, -1).contiguous()
    if rows.real is not None:
        made["values"] = made["values"].masked_fill(~made["real"][..., None], 0.0)
    return replace(rows, **made)  # type: ignore[arg-type]


@lru_cache(maxsize=4096)
def number_of(kind: Hashable) -> int:
    """A number of its own for every kind of rows: quicker to look up than the kind itself."""
    return next(NUMBERS)


NUMBERS = itertools.count()


def kind_of(rows: Rows) -> Hashable:
    """All that kernels are compiled for: shapes, types and alignments."""
    tensors = [value for value in vars(rows).values() if isinstance(value, Tensor)]
    known = [(tensor.shape, tensor.dtype, tensor.data_ptr() % 16) for tensor in tensors]
    missing = [value is None for value in vars(rows).values()]
    return (*known, *missing, rows.dropout > 0, rows.queries.device)


def pointer(tensor: Tensor | None, stand_in: Tensor) -> Tensor:
    """A kernel wants a pointer even where it will not read."""
    return stand_in if tensor is None else tensor


def settle(rows: Rows, kind: int, *, is_sine: bool) -> tuple[Tensor, Tensor]:
    """`units` and `apart` of units_triton.py."""
    size = rows.energy.shape[0]
    counts = [x.shape[0] * x.shape[1] for x in (rows.queries, rows.keys)]
    blocks, wide = -(-max(counts) // RANGE_ROWS), power_of_two(size)
    partial = rows.queries.new_empty(2, blocks, 2, size, dtype=torch.float32)
    launch(
        ranges_kernel,
        (blocks, 2, 1),
        (rows.queries, rows.keys, pointer(rows.real, partial), partial, *counts, blocks),
        {
            "REAL": rows.real is not None,
            "H": size,
            "RANGE": RANGE_ROWS,
            "ROWS": min(max(1, 8192 // wide), RANGE_ROWS),
            "BLOCK_H": wide,
        },
        kind=kind,
    )
    fits = series(rows.queries.device)
    units = partial.new_empty(5 + TERMS, size)
    apart = partial.new_empty(1 + size, dtype=torch.int32)
    widest = WIDEST if is_sine else LARGEST_EXPONENT
    launch(
        settle_kernel,
        (1, 1, 1),
        (partial, rows.energy, fits.frequency, fits.coefficients, units, apart, blocks, widest, *OCTAVES),
        {"SINE": is_sine, "COUNT": len(fits.frequency), "TERMS": TERMS, "H": size, "BLOCK_H": wide,
         "ROWS": max(1, 8192 // wide)},
        kind=(kind, is_sine),
        num_warps=8,
    )  # fmt: skip
    return units, apart
