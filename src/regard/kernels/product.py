"""A matrix product without gradients by the faster of torch's two CPU libraries.

    product(x, W, b) = x W^T + b

Torch multiplies float32 on an x86 CPU by MKL, which is slow on processors that are not Intel's; oneDNN is there as well
and takes weights as they lie. On 2 cores of an AMD EPYC it is 1.1 to 2.8 times as fast for products of a million
multiplications and more (benchmarks/results/product.json), on an Intel Xeon 0.3 to 1.1 times (ablation.json), so there,
and for small products, torch's own choice stays.
"""

import platform
from functools import cache
from pathlib import Path

import torch
import torch.nn.functional as F
from jaxtyping import Float
from torch import Tensor

from regard.contracts import torch_private
from regard.kernels.autograd import is_tracing

FEWEST = 2**20
"""Multiplications below which a call of oneDNN costs more than it gains."""
INTEL = "GenuineIntel"


def product(
    inputs: Float[Tensor, "N input"],
    weight: Float[Tensor, "output input"],
    bias: Float[Tensor, " output"] | None = None,
) -> Float[Tensor, "N output"]:
    """x W^T + b; with gradients, and wherever oneDNN does not take it, torch's own product."""
    if is_supported(inputs, weight):
        return torch_private.onednn_linear(inputs, weight, bias)
    return F.linear(inputs, weight, bias)


def is_supported(inputs: Tensor, weight: Tensor) -> bool:
    """Whether oneDNN takes this product, and is the faster library for it."""
    return (
        inputs.device.type == "cpu"
        and len(inputs) * weight.numel() >= FEWEST
        and prefers_onednn()
        and inputs.dtype == weight.dtype == torch.float32
        # columns of a wider matrix are copied by oneDNN
        and weight.is_contiguous()
        and not (torch.is_grad_enabled() and (inputs.requires_grad or weight.requires_grad))
        and not is_tracing()
    )


@cache
def prefers_onednn() -> bool:
    """Whether oneDNN is there, and the processor is an x86 of another maker than Intel."""
    is_x86 = platform.machine() in ("x86_64", "AMD64")
    return torch_private.has_onednn_linear() and is_x86 and INTEL not in processor()


def processor() -> str:
    """The processor's description by the operating system; that of Intel where none is found."""
    info = Path("/proc/cpuinfo")
    try:
        # the first processor has the maker; the file repeats it for all
        return info.read_text()[:2000]
    except OSError:
        return platform.processor() or INTEL
