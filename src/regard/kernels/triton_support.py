"""Triton where it is installed: torch's CUDA builds bring it along, others do without the kernels written in it.

from regard.kernels.tiles import jit, tl
"""

import os
from collections.abc import Callable, Hashable, Sequence
from inspect import signature
from typing import Any

import torch
from torch import Tensor

try:
    import triton
    import triton.language as tl
except ImportError:
    triton = tl = None

INSTALLED = triton is not None
constexpr = tl.constexpr if INSTALLED else object
INTERPRETED = tl.constexpr(os.environ.get("TRITON_INTERPRET") == "1") if INSTALLED else None
"""Whether kernels are run by Triton's interpreter, which knows no assembly."""
LOG2_E = tl.constexpr(1.4426950408889634) if INSTALLED else None
"""Of e^x the hardware knows 2^(x log2 e)."""
HALF = (torch.bfloat16, torch.float16)
"""What tensor cores multiply fastest."""


def serves(tensor: Tensor) -> bool:
    """Whether kernels run where this tensor is: NVIDIA's GPUs are those they are tested on."""
    return INSTALLED and tensor.device.type == "cuda" and torch.version.hip is None


def jit(function: Callable[..., Any]) -> Any:
    """The function as a kernel; as it is where nothing could run it.

    Kernels are compiled anew for numbers that are multiples of 16, except for those named `first..`.
    """
    if not INSTALLED:
        return function
    return triton.jit(
        function, do_not_specialize=[name for name in signature(function).parameters if name[:5] == "first"]
    )


def launch(
    kernel: Any, grid: tuple[int, int, int], arguments: Sequence[Any], constants: dict[str, Any], *, kind: Hashable,
    num_warps: int = 4,
) -> None:  # fmt: skip
    """kernel[grid](*arguments, **constants), remembering what was compiled: Triton's own look-up takes longer than it.

    `kind` tells apart all calls that need another compilation by their arguments: types, sizes and alignment. Constants
    come last in the kernel's signature, in this order.
    """
    key = (kernel, kind, num_warps, *constants.values())
    compiled = COMPILED.get(key)
    if compiled is None:
        if len(COMPILED) >= MOST_COMPILED:
            COMPILED.clear()
        COMPILED[key] = kernel[grid](*arguments, **constants, num_warps=num_warps)
    else:
        compiled[grid](*arguments, *constants.values())


COMPILED: dict[tuple[Any, ...], Any] = {}
"""Kernels as `launch` found them."""
MOST_COMPILED = 2**14
"""Lengths may be new with every batch; from time to time all is forgotten."""


def power_of_two(count: int) -> int:
    """The least power of two that holds this many."""
    return 1 << max(count - 1, 0).bit_length()


def tile_size(count: int) -> int:
    """The power of two, 16 or more, that holds this many: what tensor cores multiply."""
    return max(16, power_of_two(count))
