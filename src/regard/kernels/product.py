"""A matrix product by the faster of torch's two CPU libraries.

    product(x, W, b) = x W^T + b,   linear(x, W, b) = x W^T + b with gradients

Torch multiplies float32 on a CPU by MKL, which is slow on processors that are not Intel's; oneDNN is there as well, and
as fast on all of them. It takes whole weights as they lie, transposed or not. Anything else is torch's own product, and
so are gradients of weights, both of whose operands lie the wrong way: there oneDNN was the slower one.
"""

from typing import Any

import torch
import torch.nn.functional as F
from jaxtyping import Float
from torch import Tensor

from regard.kernels.autograd import is_tracing

HAS_ONEDNN = torch.backends.mkldnn.is_available() and hasattr(torch.ops.mkldnn, "_linear_pointwise")
PRODUCT: Any = torch.ops.mkldnn._linear_pointwise.default if HAS_ONEDNN else None


def is_served(inputs: Tensor, weight: Tensor) -> bool:
    """Whether oneDNN takes this product."""
    if not HAS_ONEDNN or inputs.device.type != "cpu" or torch.compiler.is_compiling():
        return False
    # columns out of a wider matrix take a path of oneDNN's that is slower by far
    lies_well = weight.is_contiguous() or weight.t().is_contiguous()
    return lies_well and inputs.dtype == weight.dtype == torch.float32 and inputs.numel() > 0 and weight.numel() > 0


def product(
    inputs: Float[Tensor, "N input"],
    weight: Float[Tensor, "output input"],
    bias: Float[Tensor, " output"] | None = None,
) -> Float[Tensor, "N output"]:
    """x W^T + b, without a gradient of its own."""
    if is_served(inputs, weight):
        return PRODUCT(inputs, weight, bias, "none", [], "")
    return F.linear(inputs, weight, bias)


def linear(
    inputs: Float[Tensor, "*B input"],
    weight: Float[Tensor, "output input"],
    bias: Float[Tensor, " output"] | None = None,
) -> Float[Tensor, "*B output"]:
    """`F.linear`, and the gradient of its inputs by the same library."""
    if is_tracing() or torch.is_autocast_enabled(inputs.device.type) or not is_served(inputs, weight):
        return F.linear(inputs, weight, bias)
    return _Linear.apply(inputs.flatten(0, -2), weight, bias).unflatten(0, inputs.shape[:-1])


class _Linear(torch.autograd.Function):
    """Three products: outputs, gradients of the inputs, gradients of the weight."""

    @staticmethod
    def forward(ctx: Any, inputs: Tensor, weight: Tensor, bias: Tensor | None) -> Tensor:
        ctx.save_for_backward(inputs, weight)
        return PRODUCT(inputs, weight, bias, "none", [], "")

    @staticmethod
    def backward(ctx: Any, grad: Tensor) -> tuple[Tensor | None, ...]:
        inputs, weight = ctx.saved_tensors
        needed = ctx.needs_input_grad
        # oneDNN's product has no gradient of its own, for whoever wants one of this
        times = F.linear if torch.is_grad_enabled() else product
        return (
            times(grad, weight.t()) if needed[0] else None,
            grad.t() @ inputs if needed[1] else None,
            grad.sum(0) if needed[2] else None,
        )
