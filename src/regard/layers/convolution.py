"""Gated convolutions over text: a position and its neighbours, one half of the answer deciding how much passes.

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
    """A weight-normalised layer that multiplies the variance of its input, roughly, by `variance`; bias 0."""
    layer = nn.Linear(input_size, output_size)
    nn.init.normal_(layer.weight, std=(variance / input_size) ** 0.5)
    nn.init.zeros_(layer.bias)
    normalised: nn.Linear = weight_norm(layer)
    return normalised


class GatedConvolution(nn.Module):
    """Narrow: `kernel_size` positions in, one out; dropout on what is read."""

    def __init__(self, *, hidden_size: int, kernel_size: int = 3, dropout: float = 0.0) -> None:
        super().__init__()
        if kernel_size < 1:
            raise ValueError(f"kernel_size is {kernel_size}, expected 1 position or more (the paper takes 3).")
        self.kernel_size = kernel_size
        self.dropout = nn.Dropout(dropout)
        # the gate halves the output: a quarter of the variance is left (Gehring 2017, section 3.5)
        self.filter = normalised_linear(kernel_size * hidden_size, 2 * hidden_size, variance=4.0 * (1.0 - dropout))

    def forward(self, states: Float[Tensor, "B wide size"]) -> Float[Tensor, "B L size"]:
        """One answer for every `kernel_size` positions in a row."""
        length = states.shape[1] - self.kernel_size + 1
        states = self.dropout(states)
        windows = [states[:, first : first + length] for first in range(self.kernel_size)]
        return F.glu(self.filter(torch.cat(windows, dim=-1)), dim=-1)


class SameConvolution(nn.Module):
    """Sees as far to either side; what is not a real position counts as zeros."""

    def __init__(self, *, hidden_size: int, kernel_size: int = 3, dropout: float = 0.0) -> None:
        super().__init__()
        self.convolution = GatedConvolution(hidden_size=hidden_size, kernel_size=kernel_size, dropout=dropout)

    def forward(self, states: Float[Tensor, "B L size"], mask: Bool[Tensor, "B L"]) -> Float[Tensor, "B L size"]:
        """As many positions out as in; `mask` is True where a position is real."""
        beyond = self.convolution.kernel_size - 1
        states = states.masked_fill(~mask.unsqueeze(-1), 0.0)
        return self.convolution(F.pad(states, (0, 0, beyond // 2, beyond - beyond // 2)))


@dataclass(frozen=True, kw_only=True)
class Convolved:
    """What came out, and the last inputs, which the next position will still see."""

    states: Float[Tensor, "B L size"]
    window: Float[Tensor, "B before size"]


class CausalConvolution(nn.Module):
    """Sees what came before. A whole text at once or one position after another: the window carries it over."""

    def __init__(self, *, hidden_size: int, kernel_size: int = 3, dropout: float = 0.0) -> None:
        super().__init__()
        self.hidden_size = hidden_size
        self.convolution = GatedConvolution(hidden_size=hidden_size, kernel_size=kernel_size, dropout=dropout)

    def start(self, states: Float[Tensor, "B ..."]) -> Float[Tensor, "B before size"]:
        """The window before the first position, for as many rows as these states have: zeros."""
        return states.new_zeros(states.shape[0], self.convolution.kernel_size - 1, self.hidden_size)

    def forward(self, states: Float[Tensor, "B L size"], window: Float[Tensor, "B before size"]) -> Convolved:
        """As many positions out as in, and the window after them."""
        seen = torch.cat([window.to(states.dtype), states], dim=1)
        return Convolved(states=self.convolution(seen), window=seen[:, states.shape[1] :])
