"""Triton where it is installed: torch's CUDA builds include it, others run without the kernels written in it.

Kernel files import `jit`, `tl` and `constexpr` from here and can be imported without Triton. `launch` calls a kernel
through a cache of compiled kernels of its own.
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
"""Whether Triton's interpreter runs the kernels; it has no inline assembly."""
LOG2_E = tl.constexpr(1.4426950408889634) if INSTALLED else None
"""The hardware computes powers of 2: e^x = 2^(x log2 e)."""
HALF = (torch.bfloat16, torch.float16)
"""The types that tensor cores multiply fastest."""


def serves(tensor: Tensor) -> bool:
    """Whether kernels can run on the tensor's device: an NVIDIA GPU; on others they are not tested."""
    return INSTALLED and tensor.device.type == "cuda" and torch.version.hip is None


def jit(function: Callable[..., Any]) -> Any:
    """The function as a Triton kernel; unchanged without Triton.

    Triton compiles again for integers that are 1 or multiples of 16, except for parameters named `first..`: these are
    offsets, which differ from launch to launch.
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
    """kernel[grid](*arguments, **constants) with a cache of our own: Triton's look-up takes longer than a short kernel.

    `kind` must differ between all calls that need another compilation because of their arguments: types, sizes and
    alignment. Constants are the kernel's last parameters, in this order.
    """
    key = (kernel, kind, num_warps, *constants.values())
    # the kernel object itself is part of the key: names may repeat
    compiled = COMPILED_KERNELS.get(key)
    if compiled is None:
        # lengths may be new with every batch: clear the cache instead of growing without bound
        if len(COMPILED_KERNELS) >= MAX_COMPILED_KERNELS:
            COMPILED_KERNELS.clear()
        # the first call goes through Triton, compiles, and returns the compiled kernel
        COMPILED_KERNELS[key] = kernel[grid](*arguments, **constants, num_warps=num_warps)
    else:
        compiled[grid](*arguments, *constants.values())


COMPILED_KERNELS: dict[tuple[Any, ...], Any] = {}
"""The cache of `launch`."""
MAX_COMPILED_KERNELS = 2**14


def power_of_two(count: int) -> int:
    """The least power of two that is at least this."""
    return 1 << max(count - 1, 0).bit_length()


def tile_size(count: int) -> int:
    """The least power of two that is at least this and 16, the smallest side that tensor cores multiply."""
    return max(16, power_of_two(count))
