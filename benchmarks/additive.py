"""Additive attention on a CPU: ours beside plain torch, torch.compile and KeOps.

Plain torch writes gigabytes down, which glibc by default gives back and asks for again page by page: it would look
twice as slow as it is. So run it with both sides' memory kept:

    MALLOC_MMAP_THRESHOLD_=4294967296 MALLOC_TRIM_THRESHOLD_=4294967296 python -m benchmarks additive
"""

import os
from collections.abc import Callable
from typing import Any

import torch
from torch import Tensor

from benchmarks.harness import Report, compare, peak_memory_mib, save
from regard.kernels.additive import AdditiveRequest
from regard.kernels.additive import operator as fused

BATCH, LENGTH, HIDDEN, VALUE = 4, 1024, 128, 64
KEPT = ("MALLOC_MMAP_THRESHOLD_", "MALLOC_TRIM_THRESHOLD_")
MEMORY = """
import torch
from benchmarks.additive import both_ways, inputs, {name}
run = both_ways({name}, inputs({length}))
run()
"""


def inputs(length: int = LENGTH) -> list[Tensor]:
    """Projected queries and keys, the energy, and values."""
    torch.manual_seed(0)
    shapes = ((BATCH, length, HIDDEN), (BATCH, length, HIDDEN), (HIDDEN,), (BATCH, length, VALUE))
    return [torch.randn(shape).requires_grad_() for shape in shapes]


def plain(queries: Tensor, keys: Tensor, energy: Tensor, values: Tensor) -> Tensor:
    """The formula."""
    return torch.softmax(torch.tanh(queries[:, :, None] + keys[:, None]) @ energy, -1) @ values


def ours(queries: Tensor, keys: Tensor, energy: Tensor, values: Tensor) -> Tensor:
    """In blocks, compiled."""
    return fused.attend_with_lse(AdditiveRequest(queries=queries, keys=keys, energy=energy, values=values), "blocked")[
        0
    ]


def keops() -> Callable[..., Tensor] | None:
    """The same by lazy tensors, where KeOps is installed and its compiler works."""
    try:
        from pykeops.torch import LazyTensor
    except ImportError:
        return None

    def read(queries: Tensor, keys: Tensor, energy: Tensor, values: Tensor) -> Tensor:
        q, k = LazyTensor(queries[:, :, None].contiguous()), LazyTensor(keys[:, None].contiguous())
        scores = ((q + k) * 2).exp()
        scores = (LazyTensor(energy[None, None, None]) * (1 - 2 / (1 + scores))).sum(-1)
        found: Tensor = scores.sumsoftmaxweight(LazyTensor(values[:, None].contiguous()), dim=2)
        return found

    return read


def both_ways(read: Callable[..., Tensor], tensors: list[Tensor]) -> Callable[[], Any]:
    """Forward and backward, all four gradients."""
    grad = torch.randn(*tensors[0].shape[:2], VALUE)
    return lambda: torch.autograd.grad(read(*tensors), tensors, grad)


def speed() -> list[Report]:
    """All candidates at one shape."""
    tensors = inputs()
    readers = {"plain torch": plain, "torch.compile": torch.compile(plain), "KeOps": keops(), "regard": ours}
    sides = {name: read for name, read in readers.items() if read is not None}
    notes = {"errors against float64, ours and plain's": accuracy()}
    if not all(os.environ.get(name) for name in KEPT):
        notes["beware"] = "memory was not kept between runs, see this file's head: plain torch looks slower than it is"
    forward = {name: lambda read=read: read(*tensors) for name, read in sides.items()}
    shape = f"({BATCH}, {LENGTH}, {HIDDEN} hidden, {VALUE} values), float32"
    with torch.no_grad():
        one = compare(f"additive attention, forward, {shape}", forward, baseline="regard", turns=7, notes=notes)
    backward = {name: both_ways(read, tensors) for name, read in sides.items()}
    other = compare(
        f"additive attention, forward and backward, {shape}", backward, baseline="regard", turns=5, warmup=1
    )
    return [one, other]


def accuracy() -> str:
    """Relative errors of context and gradients."""
    torch.manual_seed(1)
    tensors, grad = inputs(256), torch.randn(BATCH, 256, VALUE)
    truth_of = [tensor.detach().double().requires_grad_() for tensor in tensors]

    def found(read: Callable[..., Tensor], inputs_of_run: list[Tensor]) -> list[Tensor]:
        context = read(*inputs_of_run)
        return [context, *torch.autograd.grad(context, inputs_of_run, grad.to(context.dtype))]

    truth = [tensor.detach() for tensor in found(plain, truth_of)]
    texts = []
    for read in (ours, plain):
        pairs = zip(found(read, tensors), truth, strict=True)
        off = [float((one.detach().double() - two).norm() / two.norm()) for one, two in pairs]
        texts.append(", ".join(f"{each:.1e}" for each in off))
    return " / ".join(texts)


def memory() -> Report:
    """Peak memory of forward and backward over that of importing the package."""
    bare = peak_memory_mib("import torch\nfrom benchmarks.additive import inputs\ninputs()")
    peaks = {
        f"{name}, {length} tokens": peak_memory_mib(MEMORY.format(name=name, length=length)) - bare
        for name, length in (("plain", 512), ("plain", LENGTH), ("ours", LENGTH), ("ours", 4 * LENGTH))
    }
    notes = {name: f"{peak:,.0f} MiB" for name, peak in peaks.items()}
    tensors = inputs(64)
    return compare(
        "peak memory, forward and backward", {"ours": both_ways(ours, tensors)}, baseline="ours", notes=notes
    )


def run() -> list[Report]:
    """Speed, errors and memory."""
    reports = [*speed(), memory()]
    save("additive", *reports)
    return reports


if __name__ == "__main__":
    run()
