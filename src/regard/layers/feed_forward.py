"""Feed-forward layers, applied to each position on its own.

FFN(x) = max(0, x W1 + b1) W2 + b2              Vaswani et al. 2017, section 3.3. https://arxiv.org/abs/1706.03762
GLU(x) = (act(x W) * (x V)) W2                  Shazeer 2020. https://arxiv.org/abs/2002.05202
maxout(x)_i = max_p (W_p x + b_p)_i             Goodfellow et al. 2013. https://arxiv.org/abs/1302.4389
"""

from collections.abc import Callable

import torch.nn.functional as F
from jaxtyping import Float
from torch import Tensor, nn


class FeedForward(nn.Module):
    """Two layers with a ReLU, or another `activation`, between them."""

    def __init__(
        self, *, hidden_size: int, feed_forward_size: int, activation: nn.Module | None = None, dropout: float = 0.0
    ) -> None:
        super().__init__()
        self.hidden = nn.Linear(hidden_size, feed_forward_size)
        self.output = nn.Linear(feed_forward_size, hidden_size)
        self.activation = activation
        self.dropout = nn.Dropout(dropout)

    def forward(self, states: Float[Tensor, "*B size"]) -> Float[Tensor, "*B size"]:
        """States of the same size."""
        activation = F.relu if self.activation is None else self.activation
        # dropout on the hidden units; the residual connection around the layer has that of the output
        return self.output(self.dropout(activation(self.hidden(states))))


class GatedFeedForward(nn.Module):
    """Two projections of the input, of which one is the gate of the other."""

    def __init__(
        self,
        *,
        hidden_size: int,
        feed_forward_size: int,
        activation: Callable[[Tensor], Tensor] = F.silu,
        dropout: float = 0.0,
    ) -> None:
        super().__init__()
        # no biases, as in the paper
        self.gate = nn.Linear(hidden_size, feed_forward_size, bias=False)
        self.hidden = nn.Linear(hidden_size, feed_forward_size, bias=False)
        self.output = nn.Linear(feed_forward_size, hidden_size, bias=False)
        self.activation = activation
        self.dropout = nn.Dropout(dropout)

    def forward(self, states: Float[Tensor, "*B size"]) -> Float[Tensor, "*B size"]:
        """States of the same size."""
        return self.output(self.dropout(self.activation(self.gate(states)) * self.hidden(states)))


class Maxout(nn.Module):
    """The largest of several linear functions for each unit: the readout of Cho 2014 and Bahdanau 2015, with pairs."""

    def __init__(self, *, input_size: int, output_size: int, pieces: int = 2) -> None:
        super().__init__()
        if pieces < 1:
            raise ValueError(f"pieces is {pieces}, expected 1 or more (the papers take 2).")
        self.pieces = pieces
        self.proj = nn.Linear(input_size, output_size * pieces)

    def forward(self, states: Float[Tensor, "*B input"]) -> Float[Tensor, "*B output"]:
        """The largest piece of each unit."""
        # (.., output x pieces) -> (.., output, pieces): the pieces of one unit are neighbours
        return self.proj(states).unflatten(-1, (-1, self.pieces)).amax(dim=-1)
