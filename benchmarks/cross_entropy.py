"""The loss of a large readout: ours a few hundred tokens at a time, beside plain torch and torch.compile.

Forward and backward, label smoothing 0.1; on the CPU in float32, on a GPU in bfloat16.
"""

from collections.abc import Callable
from typing import Any

import torch
from torch import Tensor

from benchmarks.harness import Report, compare, device_clock, device_peak_mib, peak_memory_mib, save
from regard.kernels.cross_entropy import chunked_cross_entropy, plain_cross_entropy

SIZES = {"cpu": (2048, 512, 16_000), "cuda": (16_384, 1024, 50_000)}
"""Tokens, features, vocabulary."""
MEMORY = """
from benchmarks.cross_entropy import both_ways, chunked_cross_entropy, inputs, plain_cross_entropy
{run}
"""


def inputs(device: str) -> tuple[list[Tensor], Tensor]:
    """Features, weight and bias, and labels of which every tenth is padding."""
    torch.manual_seed(0)
    tokens, size, vocab = SIZES[device]
    dtype = torch.float32 if device == "cpu" else torch.bfloat16
    features, weight, bias = torch.randn(tokens, size), torch.randn(vocab, size) * size**-0.5, torch.zeros(vocab)
    labels = torch.randint(1, vocab, (tokens,))
    labels[::10] = 0
    return [tensor.to(device, dtype).requires_grad_() for tensor in (features, weight, bias)], labels.to(device)


def both_ways(loss: Callable[..., Tensor], tensors: list[Tensor], labels: Tensor) -> Callable[[], Any]:
    """Forward and backward, all three gradients."""
    return lambda: torch.autograd.grad(loss(*tensors, labels, ignored=0, label_smoothing=0.1), tensors)


def on(device: str) -> Report:
    """All candidates on one device."""
    tensors, labels = inputs(device)
    losses = {
        "plain torch": plain_cross_entropy,
        "torch.compile": torch.compile(plain_cross_entropy),
        "regard": chunked_cross_entropy,
    }
    candidates = {name: both_ways(loss, tensors, labels) for name, loss in losses.items()}
    tokens, size, vocab = SIZES[device]
    question = f"loss of a readout, {tokens} tokens, {size} features, {vocab} words, forward and backward, {device}"
    if device == "cuda":
        notes = {f"peak memory, {name}": f"{device_peak_mib(run):,.0f} MiB" for name, run in candidates.items()}
        return compare(question, candidates, baseline="regard", turns=15, warmup=3, clock=device_clock, notes=notes)
    runs = {"plain torch": "both_ways(plain_cross_entropy, *inputs('cpu'))()",
            "regard": "both_ways(chunked_cross_entropy, *inputs('cpu'))()"}  # fmt: skip
    bare = peak_memory_mib(MEMORY.format(run="inputs('cpu')"))
    notes = {
        f"peak memory, {name}": f"{peak_memory_mib(MEMORY.format(run=run)) - bare:,.0f} MiB"
        for name, run in runs.items()
    }
    return compare(question, candidates, baseline="regard", turns=5, warmup=1, notes=notes)


def run() -> list[Report]:
    """On the CPU, and on a GPU where there is one."""
    on_cuda = torch.cuda.is_available()
    report = on("cuda" if on_cuda else "cpu")
    save("cross_entropy_cuda" if on_cuda else "cross_entropy", report)
    return [report]


if __name__ == "__main__":
    run()
