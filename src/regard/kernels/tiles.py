"""Triton where it is installed: torch's CUDA builds bring it along, others do without the kernels written in it.

from regard.kernels.tiles import jit, tl
"""

from collections.abc import Callable
from typing import Any

try:
    import triton
    import triton.language as tl
except ImportError:
    triton = tl = None

__all__ = ["INSTALLED", "constexpr", "jit", "tile_size", "tl"]

INSTALLED = triton is not None
constexpr = tl.constexpr if INSTALLED else object


def jit(function: Callable[..., Any]) -> Any:
    """The function as a kernel; as it is where nothing could run it."""
    return triton.jit(function) if INSTALLED else function


def tile_size(count: int) -> int:
    """The power of two, 16 or more, that holds this many: what tensor cores multiply."""
    return max(16, 1 << (count - 1).bit_length())
