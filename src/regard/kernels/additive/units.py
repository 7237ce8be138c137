"""Rows made ready for kernels, and the range of every hidden unit, found on the device."""

import itertools
from collections.abc import Hashable
from dataclasses import replace
from functools import lru_cache

import torch
from torch import Tensor

from regard.kernels.additive.read import Rows
from regard.kernels.additive.series import OCTAVES, TERMS, WIDEST, series
from regard.kernels.additive.units_triton import ranges_kernel, settle_kernel
from regard.kernels.tiles import launch, power_of_two

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
