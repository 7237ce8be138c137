"""Measured maxima of this GPU: products of matrices, tanh, and bytes copied."""

import torch

from benchmarks.harness import interleave
from benchmarks.tanh_triton import tanh_kernel

ROUNDS = 256
"""tanh of each number, repeated until nothing else takes time."""


def ceilings() -> dict[str, float]:
    """Operations and bytes a second."""
    left, right = (torch.randn(8192, 8192, device="cuda", dtype=torch.float16) for _ in range(2))
    source, target = (torch.randn(2**28, device="cuda") for _ in range(2))
    out = torch.empty(8192 * 1024, device="cuda")
    candidates = {
        "matmul": lambda: left @ right,
        "copy": lambda: target.copy_(source),
        "tanh": lambda: tanh_kernel[(8192,)](out, ROUNDS=ROUNDS, BLOCK=1024),
    }
    amounts = {"matmul": 2 * 8192**3, "copy": 2 * 4 * source.numel(), "tanh": ROUNDS * out.numel()}
    timings = interleave(candidates, turns=15, warmup=3)
    return {name: amounts[name] / timing.median for name, timing in timings.items()}


def describe(rates: dict[str, float]) -> str:
    """The ceilings as text."""
    return (
        f"float16 products {rates['matmul'] / 1e12:.0f} TFLOP/s, tanh.approx {rates['tanh'] / 1e12:.2f} T/s, "
        f"copies {rates['copy'] / 1e12:.2f} TB/s"
    )
