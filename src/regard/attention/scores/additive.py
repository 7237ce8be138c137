"""Additive score: one hidden layer compares a query with a key.

    score(q, k) = v . tanh(W q + U k)

Bahdanau, Cho and Bengio 2015, section A.1.2. https://arxiv.org/abs/1409.0473

Shapes: B batch, Q queries, K keys, H hidden units of the comparison.
"""

import torch
from jaxtyping import Float
from torch import Tensor, nn

from regard.attention.check import check_size
from regard.contracts import LoweredSum
from regard.kernels import additive_scores


class Additive(nn.Module):
    """Learned comparison; queries and keys may differ in size."""

    def __init__(self, *, query_size: int, key_size: int, hidden_size: int) -> None:
        super().__init__()
        self.query_size, self.key_size = query_size, key_size
        self.query_proj = nn.Linear(query_size, hidden_size, bias=False)
        self.key_proj = nn.Linear(key_size, hidden_size, bias=False)
        self.energy = nn.Parameter(torch.empty(hidden_size))
        self.reset_parameters()

    def reset_parameters(self) -> None:
        """The energy starts as a row of a linear layer does."""
        bound = self.energy.numel() ** -0.5
        nn.init.uniform_(self.energy, -bound, bound)

    def prepare(self, keys: Float[Tensor, "... K key"]) -> Float[Tensor, "... K H"]:
        """Project the keys once; a decoder reuses the result at every step."""
        check_size("keys", keys, self.key_size, f"Additive(key_size={self.key_size})")
        return self.key_proj(keys)

    def forward(self, queries: Float[Tensor, "*#B Q query"], keys: Float[Tensor, "*#B K H"]) -> Float[Tensor, "*B Q K"]:
        """Score every query against every prepared key."""
        check_size("queries", queries, self.query_size, f"Additive(query_size={self.query_size})")
        return additive_scores(self.query_proj(queries), keys, self.energy)

    def lower(self, queries: Float[Tensor, "... Q query"], keys: Float[Tensor, "... K H"]) -> LoweredSum:
        """Kernels for additive attention take it as it is."""
        check_size("queries", queries, self.query_size, f"Additive(query_size={self.query_size})")
        return LoweredSum(queries=self.query_proj(queries), keys=keys, energy=self.energy)
