"""A linear layer made ready for decoding: its weights are laid out as oneDNN reads them.

A decoder multiplies a handful of rows with the same weights at every step, with a whole vocabulary at its end. Laid out
once, they are read in the order in which the product wants them, which pays the more the fewer the rows are. Where
torch has no oneDNN, or the numbers are not float32 on a CPU, the layer works as it always does.
"""

from dataclasses import dataclass
from typing import Any

import torch
import torch.nn.functional as F
from jaxtyping import Float
from torch import Tensor, nn

HAS_ONEDNN = torch.backends.mkldnn.is_available() and hasattr(torch.ops.mkldnn, "_linear_pointwise")
PRODUCT: Any = torch.ops.mkldnn._linear_pointwise.default if HAS_ONEDNN else None
PRODUCT_PLUS: Any = torch.ops.mkldnn._linear_pointwise.binary if HAS_ONEDNN else None


@dataclass(frozen=True)
class ReadyLinear:
    """x W^T + b; changes made to the layer later are not seen."""

    weight: Float[Tensor, "output input"]
    bias: Float[Tensor, " output"] | None
    laid_out: Tensor | None

    @classmethod
    def of(cls, *layers: nn.Linear) -> "ReadyLinear":
        """Layers of the same input side by side, as one."""
        weights: list[Tensor] = [layer.weight for layer in layers]
        biases: list[Tensor] = [layer.bias for layer in layers if layer.bias is not None]
        assert len(biases) in (0, len(layers)), "layers side by side all have a bias, or none has"
        weight = weights[0] if len(weights) == 1 else torch.cat(weights)
        return cls.of_weight(weight, torch.cat(biases) if len(biases) > 1 else next(iter(biases), None))

    @classmethod
    def of_weight(cls, weight: Float[Tensor, "output input"], bias: Float[Tensor, " output"] | None) -> "ReadyLinear":
        """A layer with these numbers."""
        return cls(weight, bias, lay_out(weight))

    def __call__(self, inputs: Float[Tensor, "N input"]) -> Float[Tensor, "N output"]:
        """A new tensor, which the caller may write over."""
        if self.laid_out is None:
            return F.linear(inputs, self.weight, self.bias)
        return PRODUCT(inputs, self.laid_out, self.bias, "none", [], "")

    def relu(self, inputs: Float[Tensor, "N input"]) -> Float[Tensor, "N output"]:
        """max(x W^T + b, 0), in one pass."""
        if self.laid_out is None:
            return F.linear(inputs, self.weight, self.bias).relu_()
        return PRODUCT(inputs, self.laid_out, self.bias, "relu", [], "")

    def gelu(self, inputs: Float[Tensor, "N input"]) -> Float[Tensor, "N output"]:
        """GELU by its tanh formula of x W^T + b, in one pass."""
        if self.laid_out is None:
            return F.gelu(F.linear(inputs, self.weight, self.bias), approximate="tanh")
        return PRODUCT(inputs, self.laid_out, self.bias, "gelu", [], "tanh")

    def plus(self, states: Float[Tensor, "N output"], inputs: Float[Tensor, "N input"]) -> Float[Tensor, "N output"]:
        """States + x W^T + b, in one pass."""
        if self.laid_out is None:
            return F.linear(inputs, self.weight, self.bias).add_(states)
        return PRODUCT_PLUS(inputs, states, self.laid_out, self.bias, "add")


def lay_out(weight: Float[Tensor, "output input"]) -> Tensor | None:
    """The weights as oneDNN likes them, opaque to all else; None where it cannot be asked."""
    if weight.device.type != "cpu" or weight.dtype != torch.float32 or torch.compiler.is_compiling():
        return None
    if not HAS_ONEDNN:
        return None
    laid_out: Tensor = torch.ops.mkldnn._reorder_linear_weight(weight.detach())
    return laid_out
