"""Additive scores: a hidden layer compares a query with a key.

    Additive   score(q, k) = v . tanh(W q + U k)          in general v . act(W q + U k + b)
    Concat     score(q, k) = v . tanh(W [q; k])

Additive: Bahdanau, Cho and Bengio 2015, section A.1.2. https://arxiv.org/abs/1409.0473
The general form: Brauwers and Frasincar 2021, table of score functions. https://arxiv.org/abs/2203.14263
Concat: Luong, Pham and Manning 2015, section 3.1. https://arxiv.org/abs/1508.04025
W [q; k] = W_q q + W_k k, so Concat is Additive with its two matrices stored as one. With U = -W Additive scores the
difference of query and key: v . tanh(W (q - k)).

Shapes: *B batch, Q queries, K keys, H hidden units of the comparison.
"""

from collections.abc import Callable

import torch
import torch.nn.functional as F
from jaxtyping import Float
from torch import Tensor, nn

from regard.attention.checks import check_size
from regard.contracts import LoweredSum
from regard.kernels.additive import additive_scores


class Additive(nn.Module):
    """Learned comparison; queries and keys may differ in size. Fused kernels compute tanh, with or without `bias`."""

    def __init__(
        self,
        *,
        query_size: int,
        key_size: int,
        hidden_size: int,
        activation: Callable[[Tensor], Tensor] = torch.tanh,
        bias: bool = False,
    ) -> None:
        super().__init__()
        self.query_size, self.key_size = query_size, key_size
        self.query_proj = nn.Linear(query_size, hidden_size, bias=False)
        self.key_proj = nn.Linear(key_size, hidden_size, bias=False)
        self.energy = nn.Parameter(torch.empty(hidden_size))
        # at 0 the score is that without a bias
        self.bias = nn.Parameter(torch.zeros(hidden_size)) if bias else None
        self.activation = activation
        self.reset_parameters()

    def extra_repr(self) -> str:
        """Settings that print shows."""
        activation = "" if self.activation is torch.tanh else f", activation={self.activation_name()}"
        return f"{sizes_of(self)}{activation}{'' if self.bias is None else ', bias=True'}"

    def activation_name(self) -> str:
        """The name of the function, or the module."""
        return str(getattr(self.activation, "__name__", self.activation))

    def reset_parameters(self) -> None:
        """Initialise the energy as a row of nn.Linear, and the bias with zeros."""
        # the default bound of nn.Linear for this number of inputs
        bound = self.energy.numel() ** -0.5
        nn.init.uniform_(self.energy, -bound, bound)
        if self.bias is not None:
            nn.init.zeros_(self.bias)

    def prepare(self, keys: Float[Tensor, "... K key"]) -> Float[Tensor, "... K H"]:
        """Project the keys once; a decoder reuses the result at every step."""
        check_size("keys", keys, self.key_size, f"Additive(key_size={self.key_size})")
        return self.key_proj(keys)

    def forward(self, queries: Float[Tensor, "*#B Q query"], keys: Float[Tensor, "*#B K H"]) -> Float[Tensor, "*B Q K"]:
        """Score every query against every prepared key."""
        projected = self.project(queries)
        if self.activation is torch.tanh:
            return additive_scores(projected, keys, self.energy)
        # (.., Q, 1, H) and (.., 1, K, H)
        return self.activation(projected.unsqueeze(-2) + keys.unsqueeze(-3)) @ self.energy

    def lower(self, queries: Float[Tensor, "... Q query"], keys: Float[Tensor, "... K H"]) -> LoweredSum | str:
        """Projected queries and keys, and the energy; the reason why there is none, unless the activation is tanh."""
        if self.activation is not torch.tanh:
            return f"Additive applies {self.activation_name()}, and fused kernels for sums compute tanh alone"
        return LoweredSum(queries=self.project(queries), keys=keys, energy=self.energy)

    def project(self, queries: Float[Tensor, "... Q query"]) -> Float[Tensor, "... Q H"]:
        """W q + b: there are fewer queries than keys wherever prepared keys are used again."""
        check_size("queries", queries, self.query_size, f"Additive(query_size={self.query_size})")
        projected = self.query_proj(queries)
        return projected if self.bias is None else projected + self.bias


class Concat(nn.Module):
    """Learned comparison with one matrix; queries and keys may differ in size."""

    def __init__(self, *, query_size: int, key_size: int, hidden_size: int) -> None:
        super().__init__()
        self.query_size, self.key_size = query_size, key_size
        self.proj = nn.Linear(query_size + key_size, hidden_size, bias=False)
        self.energy = nn.Parameter(torch.empty(hidden_size))
        self.reset_parameters()

    def extra_repr(self) -> str:
        """Settings that print shows."""
        return sizes_of(self)

    def reset_parameters(self) -> None:
        """Initialise the energy as a row of nn.Linear."""
        bound = self.energy.numel() ** -0.5
        nn.init.uniform_(self.energy, -bound, bound)

    def prepare(self, keys: Float[Tensor, "... K key"]) -> Float[Tensor, "... K H"]:
        """Apply the keys' half of the matrix once."""
        check_size("keys", keys, self.key_size, f"Concat(key_size={self.key_size})")
        # a slice is a view: its gradient accumulates in the one parameter
        return F.linear(keys, self.proj.weight[:, self.query_size :])

    def forward(self, queries: Float[Tensor, "*#B Q query"], keys: Float[Tensor, "*#B K H"]) -> Float[Tensor, "*B Q K"]:
        """Score every query against every prepared key."""
        check_size("queries", queries, self.query_size, f"Concat(query_size={self.query_size})")
        return additive_scores(F.linear(queries, self.proj.weight[:, : self.query_size]), keys, self.energy)

    def lower(self, queries: Float[Tensor, "... Q query"], keys: Float[Tensor, "... K H"]) -> LoweredSum:
        """Projected queries and keys, and the energy."""
        check_size("queries", queries, self.query_size, f"Concat(query_size={self.query_size})")
        projected = F.linear(queries, self.proj.weight[:, : self.query_size])
        return LoweredSum(queries=projected, keys=keys, energy=self.energy)


def sizes_of(score: Additive | Concat) -> str:
    """Sizes for print(score)."""
    return f"query_size={score.query_size}, key_size={score.key_size}, hidden_size={score.energy.numel()}"
