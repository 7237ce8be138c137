"""Additive attention on a GPU: ours beside plain torch and torch.compile; time and memory against length; errors.

FlexAttention cannot express it: it modifies a finished dot product.
"""

from collections.abc import Callable
from typing import Any

import torch
from torch import Tensor

from benchmarks.ceilings import ceilings, describe
from benchmarks.harness import Report, compare, device_clock, device_peak_mib, save
from regard.kernels.additive import AdditiveRequest
from regard.kernels.additive import operator as fused
from regard.kernels.additive.unit_ranges import TERMS

BATCH, LENGTH, HIDDEN, VALUE = 8, 2048, 128, 64
LENGTHS = (1024, 4096, 16384, 65536, 131072)


def inputs(batch: int, length: int, dtype: torch.dtype, scale: float = 1.0) -> list[Tensor]:
    """Projected queries and keys, the energy, and values."""
    torch.manual_seed(0)
    queries, keys = (scale * torch.randn(batch, length, HIDDEN, device="cuda") for _ in range(2))
    energy, values = torch.randn(HIDDEN, device="cuda") * HIDDEN**-0.5, torch.randn(batch, length, VALUE, device="cuda")
    return [tensor.to(dtype).requires_grad_() for tensor in (queries, keys, energy, values)]


def by_product(queries: Tensor, keys: Tensor, energy: Tensor, values: Tensor) -> Tensor:
    """The formula, its last sum a product with the energy."""
    return torch.softmax(torch.tanh(queries[:, :, None] + keys[:, None]) @ energy, -1) @ values


def by_sum(queries: Tensor, keys: Tensor, energy: Tensor, values: Tensor) -> Tensor:
    """The formula, its last sum a sum."""
    return torch.softmax((energy * torch.tanh(queries[:, :, None] + keys[:, None])).sum(-1), -1) @ values


def ours(path: str) -> Callable[..., Tensor]:
    """One of our paths."""

    def read(queries: Tensor, keys: Tensor, energy: Tensor, values: Tensor) -> Tensor:
        request = AdditiveRequest(queries=queries, keys=keys, energy=energy, values=values)
        return fused.attend_with_lse(request, path)[0]

    return read


def both_ways(read: Callable[..., Tensor], tensors: list[Tensor]) -> Callable[[], Any]:
    """Forward and backward, all four gradients."""
    grad = torch.randn(*tensors[0].shape[:2], tensors[3].shape[2], device="cuda").to(tensors[3].dtype)
    return lambda: torch.autograd.grad(read(*tensors), tensors, grad)


def speed() -> list[Report]:
    """All candidates at one shape, forward alone and with the backward pass."""
    wide, half = (inputs(BATCH, LENGTH, dtype) for dtype in (torch.float32, torch.bfloat16))
    sides = {
        "torch.compile, sum": (torch.compile(by_sum), wide),
        "torch.compile, product": (torch.compile(by_product), wide),
        "plain torch": (by_product, wide),
        "exact, float32": (ours("exact"), wide),
        "sine, bfloat16": (ours("sine"), half),
    }
    limits = ceilings()
    pairs = BATCH * LENGTH**2
    notes = {
        "measured ceilings": describe(limits),
        "tanh at its ceiling": f"{1e3 * pairs * HIDDEN / limits['tanh']:.2f} ms forward",
        "products at theirs": f"{1e3 * 4 * pairs * TERMS * HIDDEN / limits['matmul']:.3f} ms forward, "
        f"{1e3 * 16 * pairs * TERMS * HIDDEN / limits['matmul']:.3f} ms forward and backward (sine, {TERMS} terms)",
    }
    shape = f"({BATCH}, {LENGTH}, {HIDDEN} hidden, {VALUE} values), on the device"
    forward = {name: lambda read=read, given=given: read(*given) for name, (read, given) in sides.items()}
    with torch.no_grad():
        one = compare(
            f"additive attention, forward, {shape}", forward, baseline="sine, bfloat16", turns=21, warmup=4,
            clock=device_clock, notes=notes,
        )  # fmt: skip
    backward = {name: both_ways(*side) for name, side in sides.items()}
    peaks = {f"peak memory, {name}": f"{device_peak_mib(run):,.0f} MiB" for name, run in backward.items()}
    other = compare(
        f"additive attention, forward and backward, {shape}", backward, baseline="sine, bfloat16", turns=11, warmup=3,
        clock=device_clock, notes=peaks,
    )  # fmt: skip
    return [one, other]


def lengths() -> Report:
    """One row of increasing length: time and memory."""
    candidates, notes = {}, {}
    for length in LENGTHS:
        tensors = inputs(1, length, torch.bfloat16)
        run = both_ways(ours("sine"), tensors)
        notes[f"peak memory, {length} tokens"] = f"{device_peak_mib(run):,.0f} MiB"
        candidates[f"{length} tokens, forward"] = lambda given=tensors: forward_alone(given)
        candidates[f"{length} tokens, forward and backward"] = run
    first = next(iter(candidates))
    return compare(
        "additive attention, sine, bfloat16, one row", candidates, baseline=first, turns=5, warmup=1,
        clock=device_clock, notes=notes,
    )  # fmt: skip


def forward_alone(tensors: list[Tensor]) -> Tensor:
    """The forward pass without gradients."""
    with torch.no_grad():
        return ours("sine")(*tensors)


def accuracy() -> Report:
    """Errors against float64 over plain torch's in the same precision, for outputs and every gradient."""
    notes = {}
    kinds = {
        "sine": (torch.bfloat16, (1e-3, 0.1, 1.0, 3.0, 30.0)),
        "exact": (torch.float32, (1e-3, 0.1, 1.0, 3.0, 30.0)),
    }
    for path, (dtype, scales) in kinds.items():
        for scale in scales:
            tensors = inputs(2, 512, dtype, scale)
            actual, plain = gradients(ours(path), tensors), gradients(by_product, tensors)
            truth = gradients(by_product, [tensor.detach().double().requires_grad_() for tensor in tensors])
            off = [[error(*pair) for pair in zip(side, truth, strict=True)] for side in (actual, plain)]
            texts = [f"{mine:.1e} ({mine / theirs:.2f})" for mine, theirs in zip(*off, strict=True)]
            notes[f"{path}, inputs of size {scale}"] = ", ".join(texts)
    notes["order"] = "context, queries, keys, energy, values: relative error (of plain torch's in the same precision)"
    tensors = inputs(2, 512, torch.bfloat16)
    candidates = {"sine": both_ways(ours("sine"), tensors)}
    return compare("additive attention, errors against float64 at (2, 512)", candidates, baseline="sine", notes=notes)


def gradients(read: Callable[..., Tensor], tensors: list[Tensor]) -> list[Tensor]:
    """The context and every gradient."""
    context = read(*tensors)
    grad = torch.randn(context.shape, generator=torch.Generator("cuda").manual_seed(1), device="cuda").bfloat16()
    return [context, *torch.autograd.grad(context, tensors, grad.to(context.dtype))]


def error(actual: Tensor, truth: Tensor) -> float:
    """The relative error in the norm."""
    return float((actual.detach().double() - truth.detach()).norm() / truth.detach().norm())


def run() -> list[Report]:
    """All measurements, where there is a GPU."""
    if not torch.cuda.is_available():
        return []
    reports = [*speed(), lengths(), accuracy()]
    save("additive_cuda", *reports)
    return reports


if __name__ == "__main__":
    run()
