"""The range of every hidden unit, and the sine series that fits tanh on it.

    tanh(x) ~ sum_r c_r sin((2r - 1) w x),   |x| <= X,   w = pi / (2 L),   r = 1..R

L is the quarter period: the series is symmetric about it. Where tanh is nearly flat (large X), L may be shorter than X,
and the terms saved there make the rest better; for small X it must be longer, because the fold leaves a slope of
sech^2(L). Small arguments are more frequent than large ones, so the fit weighs their errors more.

The series are fitted once per device, for a table of ranges. `fit_units` then finds each unit's range on the device and
picks its row of the table there.
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

from regard.kernels.additive.reference import FlatRequest
from regard.kernels.additive.shared_triton import fit_units_kernel, ranges_kernel
from regard.kernels.triton_support import launch, power_of_two

TERMS = 10
"""R: more terms cost larger matrix products and fit better."""
WIDEST = 11.0
"""The largest X at which R terms err less than half precision rounds."""
OCTAVES = (-8.0, 4.0)
"""Ranges are 2^(-8), 2^(-7.75) .. WIDEST: the exponent of the first, and how many there are per octave."""
RANGES = (1.0, 2.0, 3.0, 4.0, 6.0, 8.0, 10.0, 12.0)
QUARTERS = (2.3, 2.9, 3.5, 4.2, 5.0, 5.7, 6.5, 7.2)
"""The best L for each X of RANGES; interpolated in between, proportional to X below."""
CENTRE_WEIGHT = 2.0
SLOPE_WEIGHT = 0.3
POINTS, ROUNDS = 600, 4
LARGEST_EXPONENT = 10.5
"""e^(2 * 10.5) to the fourth power is still a float32 number."""
RANGE_ROWS = 256
"""Rows of queries or keys per program of `ranges_kernel`."""


@dataclass(frozen=True)
class SineSeries:
    """Frequency and coefficients of each of G ranges, in ascending order."""

    frequency: Float[Tensor, " G"]
    coefficients: Float[Tensor, "G R"]


@cache
def sine_series(device: torch.device) -> SineSeries:
    """The table of fits, on this device."""
    first, per_octave = OCTAVES
    count = math.ceil((math.log2(WIDEST) - first) * per_octave) + 1
    # quarter octaves: a unit's range is rounded up by 19 % at most
    widths = [2.0 ** (first + step / per_octave) for step in range(count)]
    frequencies = [math.pi / (2 * quarter_period(width)) for width in widths]
    fits = [fit_series(width, frequency) for width, frequency in zip(widths, frequencies, strict=True)]
    return SineSeries(
        frequency=torch.tensor(frequencies, dtype=torch.float32, device=device),
        coefficients=torch.from_numpy(np.stack(fits)).to(device, torch.float32),
    )


def quarter_period(width: float) -> float:
    """L for arguments up to `width`."""
    return float(np.interp(width, RANGES, QUARTERS)) if width > RANGES[0] else QUARTERS[0] * width


def fit_series(width: float, frequency: float, terms: int = TERMS) -> np.ndarray:
    """c_1 .. c_R by least squares of value and slope, with the largest errors weighted up in each round."""
    # midpoints of equal intervals; tanh and the sines are odd, so x > 0 is enough
    points = (np.arange(POINTS) + 0.5) * width / POINTS
    rates = (2 * np.arange(1, terms + 1) - 1) * frequency
    sines, slopes = np.sin(np.outer(points, rates)), np.cos(np.outer(points, rates)) * rates
    value, slope = np.tanh(points), np.cosh(points) ** -2.0
    # small arguments are more frequent
    importance = np.exp(-CENTRE_WEIGHT * (points / width) ** 2)
    weight = importance
    coefficients = np.zeros(terms)
    # reweighting turns least squares towards a minimax fit: the largest error shrinks
    for _ in range(ROUNDS):
        left = np.concatenate([sines * weight[:, None], SLOPE_WEIGHT * slopes * weight[:, None]])
        right = np.concatenate([value * weight, SLOPE_WEIGHT * slope * weight])
        # the cutoff bounds the coefficients: without it they grow for small X, and float16 features would cancel
        coefficients = np.linalg.lstsq(left, right, rcond=1e-12)[0]
        error = np.abs(sines @ coefficients - value) * importance
        weight = weight * (0.5 + error / error.max())
        weight = weight / weight.max()
    return coefficients


def prepare_request(request: FlatRequest) -> FlatRequest:
    """Make tensors contiguous, expand the masks to the batch, and set masked values to 0, whatever they held."""
    batch_size = request.queries.shape[0]
    fields = {name: value.contiguous() for name, value in vars(request).items() if isinstance(value, Tensor)}
    # expanded, so that kernels index every mask by the batch element
    for name in ("low", "high", "key_mask"):
        if name in fields:
            fields[name] = fields[name].expand(batch_size, -1).contiguous()
    if request.key_mask is not None:
        fields["values"] = fields["values"].masked_fill(~fields["key_mask"][..., None], 0.0)
    return replace(request, **fields)  # type: ignore[arg-type]


@lru_cache(maxsize=4096)
def intern_kind(kind: Hashable) -> int:
    """A number for every kind of request: quicker to hash in each launch than the kind itself."""
    return next(KIND_NUMBERS)


KIND_NUMBERS = itertools.count()


def request_kind(request: FlatRequest) -> Hashable:
    """Everything kernels are compiled for: shapes, types and alignments."""
    tensors = [value for value in vars(request).values() if isinstance(value, Tensor)]
    layouts = [(tensor.shape, tensor.dtype, tensor.data_ptr() % 16) for tensor in tensors]
    # a missing mask compiles another kernel
    missing = [value is None for value in vars(request).values()]
    return (*layouts, *missing, request.dropout > 0, request.queries.device)


def replace_none(tensor: Tensor | None, placeholder: Tensor) -> Tensor:
    """A kernel takes a pointer even where it does not load from it."""
    return placeholder if tensor is None else tensor


def fit_units(request: FlatRequest, kind: int, *, is_sine: bool) -> tuple[Tensor, Tensor]:
    """`units` and `outliers` as described in shared_triton.py."""
    size = request.energy.shape[0]
    # one range for the whole batch: units are parameters of a layer, not of an example
    counts = [x.shape[0] * x.shape[1] for x in (request.queries, request.keys)]
    # both sides in one launch, with as many programs as the longer one needs
    blocks, block_h = -(-max(counts) // RANGE_ROWS), power_of_two(size)
    # rows per load: 8192 elements of any hidden size fill a program's registers
    tile_rows = max(1, 8192 // block_h)
    partial = request.queries.new_empty(2, blocks, 2, size, dtype=torch.float32)
    launch(
        ranges_kernel,
        (blocks, 2, 1),
        (request.queries, request.keys, replace_none(request.key_mask, partial), partial, *counts, blocks),
        {"HAS_KEY_MASK": request.key_mask is not None, "H": size, "RANGE": RANGE_ROWS,
         "ROWS": min(tile_rows, RANGE_ROWS), "BLOCK_H": block_h},
        kind=kind,
    )  # fmt: skip
    table = sine_series(request.queries.device)
    units = partial.new_empty(5 + TERMS, size)
    outliers = partial.new_empty(1 + size, dtype=torch.int32)
    widest = WIDEST if is_sine else LARGEST_EXPONENT
    # one program: outliers are listed in order, and the energy's scale is a maximum over all units
    launch(
        fit_units_kernel,
        (1, 1, 1),
        (partial, request.energy, table.frequency, table.coefficients, units, outliers, blocks, widest, *OCTAVES),
        {"SINE": is_sine, "COUNT": len(table.frequency), "TERMS": TERMS, "H": size, "BLOCK_H": block_h,
         "ROWS": tile_rows},
        kind=(kind, is_sine),
        num_warps=8,
    )  # fmt: skip
    return units, outliers
