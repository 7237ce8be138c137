"""Feed-forward: what each position thinks by itself; attention is what they tell each other.

FFN(x) = max(0, x W1 + b1) W2 + b2              Vaswani et al. 2017, section 3.3. https://arxiv.org/abs/1706.03762
GLU(x) = (act(x W) * (x V)) W2                  Shazeer 2020. https://arxiv.org/abs/2002.05202
"""

from collections.abc import Callable

import torch.nn.functional as F
from jaxtyping import Float
from torch import Tensor, nn


class FeedForward(nn.Module):
    """Position-wise: the same two layers at every position, none sees another. `activation` bends instead of max."""

    def __init__(
        self, *, hidden_size: int, feed_forward_size: int, activation: nn.Module | None = None, dropout: float = 0.0
    ) -> None:
        super().__init__()
        self.hidden = nn.Linear(hidden_size, feed_forward_size)
        self.output = nn.Linear(feed_forward_size, hidden_size)
        self.activation = activation
        self.dropout = nn.Dropout(dropout)

    def forward(self, states: Float[Tensor, "*B size"]) -> Float[Tensor, "*B size"]:
        """Widen, bend, narrow."""
        bend = F.relu if self.activation is None else self.activation
        return self.output(self.dropout(bend(self.hidden(states))))


class GatedFeedForward(nn.Module):
    """Position-wise, one half deciding how much of the other passes."""

    def __init__(
        self,
        *,
        hidden_size: int,
        feed_forward_size: int,
        activation: Callable[[Tensor], Tensor] = F.silu,
        dropout: float = 0.0,
    ) -> None:
        super().__init__()
        self.gate = nn.Linear(hidden_size, feed_forward_size, bias=False)
        self.hidden = nn.Linear(hidden_size, feed_forward_size, bias=False)
        self.output = nn.Linear(feed_forward_size, hidden_size, bias=False)
        self.activation = activation
        self.dropout = nn.Dropout(dropout)

    def forward(self, states: Float[Tensor, "*B size"]) -> Float[Tensor, "*B size"]:
        """Widen twice, multiply, narrow."""
        return self.output(self.dropout(self.activation(self.gate(states)) * self.hidden(states)))
