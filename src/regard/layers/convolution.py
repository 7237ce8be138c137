"""Gated convolutions over text: one half of the output gates the other.

    [a; b] = W [x_{i-k+1}; ..; x_i] + b,    y_i = a * sigmoid(b)

Dauphin et al. 2016, https://arxiv.org/abs/1612.08083; as Gehring et al. 2017 use it, https://arxiv.org/abs/1705.03122.
Weights are normalised, W = g v / |v| by rows: Salimans and Kingma 2016, https://arxiv.org/abs/1602.07868.

Shapes: B batch, L positions.
"""

from dataclasses import dataclass

import torch
import torch.nn.functional as F
from jaxtyping import Bool, Float
from torch import Tensor, nn
from torch.nn.utils.parametrizations import weight_norm


def normalised_linear(input_size: int, output_size: int, *, variance: float = 1.0) -> nn.Linear:
    """A weight-normalised linear layer, initialised to multiply the variance of its input by about `variance`."""
    layer = nn.Linear(input_size, output_size)
    # an output is a sum of input_size products, whose variances add up
    nn.init.normal_(layer.weight, std=(variance / input_size) ** 0.5)
    nn.init.zeros_(layer.bias)
    # after the initialisation, from which weight_norm takes g = |v|
    normalised: nn.Linear = weight_norm(layer)
    return normalised


class GatedConvolution(nn.Module):
    """A convolution without padding and a gated linear unit, with dropout on the input."""

    def __init__(self, *, hidden_size: int, kernel_size: int = 3, dropout: float = 0.0) -> None:
        super().__init__()
        if kernel_size < 1:
            raise ValueError(f"kernel_size is {kernel_size}, expected 1 position or more (the paper takes 3).")
        self.kernel_size = kernel_size
        self.dropout = nn.Dropout(dropout)
        # the gate is 1/2 on average, which leaves a quarter of the variance (Gehring 2017, section 3.5)
        # dropout multiplies the variance of its input by 1 / (1 - dropout)
        self.filter = normalised_linear(kernel_size * hidden_size, 2 * hidden_size, variance=4.0 * (1.0 - dropout))

    def forward(self, states: Float[Tensor, "B wide size"]) -> Float[Tensor, "B L size"]:
        """One output for every window of `kernel_size` positions."""
        length = states.shape[1] - self.kernel_size + 1
        states = self.dropout(states)
        # windows side by side (B, L, kernel_size x hidden), so that one linear layer is the convolution
        windows = [states[:, first : first + length] for first in range(self.kernel_size)]
        return F.glu(self.filter(torch.cat(windows, dim=-1)), dim=-1)


class SameConvolution(nn.Module):
    """A centred convolution; padding and masked positions are zeros."""

    def __init__(self, *, hidden_size: int, kernel_size: int = 3, dropout: float = 0.0) -> None:
        super().__init__()
        self.convolution = GatedConvolution(hidden_size=hidden_size, kernel_size=kernel_size, dropout=dropout)

    def forward(self, states: Float[Tensor, "B L size"], mask: Bool[Tensor, "B L"]) -> Float[Tensor, "B L size"]:
        """An output for every position; `mask` is True for real positions."""
        padding = self.convolution.kernel_size - 1
        # masked positions count as padding, so that results do not depend on the batch
        states = states.masked_fill(~mask.unsqueeze(-1), 0.0)
        # F.pad counts dimensions from the last; an even kernel has one more position of padding on the right
        return self.convolution(F.pad(states, (0, 0, padding // 2, padding - padding // 2)))


@dataclass(frozen=True, kw_only=True)
class Convolved:
    """The outputs, and the last inputs, which are part of the next window."""

    states: Float[Tensor, "B L size"]
    window: Float[Tensor, "B before size"]


class CausalConvolution(nn.Module):
    """A causal convolution. The window carries the last inputs over, so a text may be processed in pieces."""

    def __init__(self, *, hidden_size: int, kernel_size: int = 3, dropout: float = 0.0) -> None:
        super().__init__()
        self.hidden_size = hidden_size
        self.convolution = GatedConvolution(hidden_size=hidden_size, kernel_size=kernel_size, dropout=dropout)

    def start(self, states: Float[Tensor, "B ..."]) -> Float[Tensor, "B before size"]:
        """A window of zeros for the batch of these states."""
        return states.new_zeros(states.shape[0], self.convolution.kernel_size - 1, self.hidden_size)

    def forward(self, states: Float[Tensor, "B L size"], window: Float[Tensor, "B before size"]) -> Convolved:
        """An output for every position, and the window after them."""
        inputs = torch.cat([window.to(states.dtype), states], dim=1)
        # the last kernel_size - 1 inputs
        return Convolved(states=self.convolution(inputs), window=inputs[:, states.shape[1] :])
