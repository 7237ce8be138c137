"""Bilinear scores: general, biased and activated.

General score: a learned bilinear form.

    score(q, k) = q W k

Luong, Pham and Manning 2015, section 3.1. https://arxiv.org/abs/1508.04025

Biased general score: a bilinear form, and a part of the key that counts whatever the query.

    score(q, k) = k . (W q + b)

Sordoni, Bachman and Bengio 2016, section 3.2. https://arxiv.org/abs/1606.02245

Activated general score: a bilinear form bent by an activation.

    score(q, k) = act(q W k + b)

Ma et al. 2017, section 3.2. https://arxiv.org/abs/1709.00893
"""

from collections.abc import Callable

import torch
from jaxtyping import Float
from torch import Tensor, nn

from regard.attention.checks import check_size
from regard.contracts import Lowered
from regard.kernels.dot import dot_scores


class General(nn.Module):
    """Queries and keys may differ in size; the query is projected, so that keys are compared as they are."""

    def __init__(self, *, query_size: int, key_size: int) -> None:
        super().__init__()
        self.query_size, self.key_size = query_size, key_size
        self.query_proj = nn.Linear(query_size, key_size, bias=False)

    def prepare(self, keys: Float[Tensor, "... K key"]) -> Float[Tensor, "... K key"]:
        """Keys are compared as they are."""
        check_size("keys", keys, self.key_size, f"General(key_size={self.key_size})")
        return keys

    def forward(
        self, queries: Float[Tensor, "*#B Q query"], keys: Float[Tensor, "*#B K key"]
    ) -> Float[Tensor, "*B Q K"]:
        """Score every query against every key."""
        check_size("queries", queries, self.query_size, f"General(query_size={self.query_size})")
        return dot_scores(self.query_proj(queries), keys)

    def lower(self, queries: Float[Tensor, "... Q query"], keys: Float[Tensor, "... K key"]) -> Lowered:
        """Project the query, then dot."""
        check_size("queries", queries, self.query_size, f"General(query_size={self.query_size})")
        return Lowered(queries=self.query_proj(queries), keys=keys)


class BiasedGeneral(nn.Module):
    """Queries and keys may differ in size."""

    def __init__(self, *, query_size: int, key_size: int) -> None:
        super().__init__()
        self.query_size, self.key_size = query_size, key_size
        self.query_proj = nn.Linear(query_size, key_size)

    def prepare(self, keys: Float[Tensor, "... K key"]) -> Float[Tensor, "... K key"]:
        """Keys are compared as they are."""
        check_size("keys", keys, self.key_size, f"BiasedGeneral(key_size={self.key_size})")
        return keys

    def forward(
        self, queries: Float[Tensor, "*#B Q query"], keys: Float[Tensor, "*#B K key"]
    ) -> Float[Tensor, "*B Q K"]:
        """Score every query against every key."""
        check_size("queries", queries, self.query_size, f"BiasedGeneral(query_size={self.query_size})")
        return dot_scores(self.query_proj(queries), keys)

    def lower(self, queries: Float[Tensor, "... Q query"], keys: Float[Tensor, "... K key"]) -> Lowered:
        """Project the query, bias and all, then dot."""
        check_size("queries", queries, self.query_size, f"BiasedGeneral(query_size={self.query_size})")
        return Lowered(queries=self.query_proj(queries), keys=keys)


class ActivatedGeneral(nn.Module):
    """Queries and keys may differ in size; tanh is the paper's activation."""

    def __init__(self, *, query_size: int, key_size: int, activation: Callable[[Tensor], Tensor] = torch.tanh) -> None:
        super().__init__()
        self.query_size, self.key_size = query_size, key_size
        self.query_proj = nn.Linear(query_size, key_size, bias=False)
        self.bias = nn.Parameter(torch.zeros(()))
        self.activation = activation

    def prepare(self, keys: Float[Tensor, "... K key"]) -> Float[Tensor, "... K key"]:
        """Keys are compared as they are."""
        check_size("keys", keys, self.key_size, f"ActivatedGeneral(key_size={self.key_size})")
        return keys

    def forward(
        self, queries: Float[Tensor, "*#B Q query"], keys: Float[Tensor, "*#B K key"]
    ) -> Float[Tensor, "*B Q K"]:
        """Score every query against every key."""
        check_size("queries", queries, self.query_size, f"ActivatedGeneral(query_size={self.query_size})")
        return self.activation(dot_scores(self.query_proj(queries), keys) + self.bias)

    def lower(self, queries: Float[Tensor, "... Q query"], keys: Float[Tensor, "... K key"]) -> str:
        """No dot product has these scores."""
        return "ActivatedGeneral bends each score after the product, which no dot kernel can"
