"""How much faster is oneDNN than torch's own choice for the products of fused decoding on this CPU?

    python -m benchmarks product

`regard.kernels.product` uses oneDNN on x86 processors that are not Intel's: the figures show whether that is right.
"""

from functools import partial

import torch
import torch.nn.functional as F

from benchmarks.harness import Report, compare, save
from regard.contracts import torch_private

SHAPES = ((1024, 256), (256, 1024), (10_000, 256), (1536, 384), (50_257, 384))
"""Outputs and inputs: feed-forward layers and readouts of the recipes' models, and a readout of GPT-2's vocabulary."""
ROWS = (1, 5, 16, 80)
"""Greedy search, a beam of 5, 16 texts, and 16 texts with a beam of 5."""


@torch.no_grad()
def measure(outputs: int, size: int, rows: int) -> Report:
    """Both libraries on one shape."""
    torch.manual_seed(0)
    inputs, weight = torch.randn(rows, size), torch.randn(outputs, size)
    candidates = {
        "F.linear": partial(F.linear, inputs, weight),
        "oneDNN": partial(torch_private.onednn_linear, inputs, weight, None),
    }
    question = f"product {size} x {outputs}, {rows} rows, float32, cpu"
    # microseconds each, so that many turns cost little
    return compare(question, candidates, baseline="oneDNN", turns=60, warmup=5)


def run() -> None:
    """Every shape."""
    save("product", *(measure(outputs, size, rows) for outputs, size in SHAPES for rows in ROWS))
