"""Bilinear scores: general, biased general and activated general.

    General            score(q, k) = q W k
    BiasedGeneral      score(q, k) = k . (W q + b)
    ActivatedGeneral   score(q, k) = act(q W k + b)

General: Luong, Pham and Manning 2015, section 3.1. https://arxiv.org/abs/1508.04025
BiasedGeneral: Sordoni, Bachman and Bengio 2016, section 3.2. https://arxiv.org/abs/1606.02245
ActivatedGeneral: Ma et al. 2017, section 3.2. https://arxiv.org/abs/1709.00893
"""

from collections.abc import Callable

import torch
from jaxtyping import Float
from torch import Tensor, nn

from regard.attention.checks import check_size
from regard.contracts import Lowered
from regard.kernels.dot import dot_scores


class General(nn.Module):
    """Bilinear form; queries and keys may differ in size. Projecting the queries leaves the keys as they are."""

    def __init__(self, *, query_size: int, key_size: int) -> None:
        super().__init__()
        self.query_size, self.key_size = query_size, key_size
        self.query_proj = nn.Linear(query_size, key_size, bias=False)

    def extra_repr(self) -> str:
        """Settings that print shows."""
        return f"query_size={self.query_size}, key_size={self.key_size}"

    def prepare(self, keys: Float[Tensor, "... K key"]) -> Float[Tensor, "... K key"]:
        """The keys themselves."""
        check_size("keys", keys, self.key_size, f"General(key_size={self.key_size})")
        return keys

    def forward(
        self, queries: Float[Tensor, "*#B Q query"], keys: Float[Tensor, "*#B K key"]
    ) -> Float[Tensor, "*B Q K"]:
        """Score every query against every key."""
        check_size("queries", queries, self.query_size, f"General(query_size={self.query_size})")
        return dot_scores(self.query_proj(queries), keys)

    def lower(self, queries: Float[Tensor, "... Q query"], keys: Float[Tensor, "... K key"]) -> Lowered:
        """The dot product of projected queries and keys."""
        check_size("queries", queries, self.query_size, f"General(query_size={self.query_size})")
        return Lowered(queries=self.query_proj(queries), keys=keys)


class BiasedGeneral(nn.Module):
    """Bilinear form with a bias k . b that depends on the key alone; queries and keys may differ in size."""

    def __init__(self, *, query_size: int, key_size: int) -> None:
        super().__init__()
        self.query_size, self.key_size = query_size, key_size
        # the bias of the projection is b: (W q + b) . k = k W q + k . b
        self.query_proj = nn.Linear(query_size, key_size)

    def extra_repr(self) -> str:
        """Settings that print shows."""
        return f"query_size={self.query_size}, key_size={self.key_size}"

    def prepare(self, keys: Float[Tensor, "... K key"]) -> Float[Tensor, "... K key"]:
        """The keys themselves."""
        check_size("keys", keys, self.key_size, f"BiasedGeneral(key_size={self.key_size})")
        return keys

    def forward(
        self, queries: Float[Tensor, "*#B Q query"], keys: Float[Tensor, "*#B K key"]
    ) -> Float[Tensor, "*B Q K"]:
        """Score every query against every key."""
        check_size("queries", queries, self.query_size, f"BiasedGeneral(query_size={self.query_size})")
        return dot_scores(self.query_proj(queries), keys)

    def lower(self, queries: Float[Tensor, "... Q query"], keys: Float[Tensor, "... K key"]) -> Lowered:
        """The dot product of projected queries, with the bias, and keys."""
        check_size("queries", queries, self.query_size, f"BiasedGeneral(query_size={self.query_size})")
        return Lowered(queries=self.query_proj(queries), keys=keys)


class ActivatedGeneral(nn.Module):
    """Bilinear form under an activation, in the paper tanh; queries and keys may differ in size."""

    def __init__(self, *, query_size: int, key_size: int, activation: Callable[[Tensor], Tensor] = torch.tanh) -> None:
        super().__init__()
        self.query_size, self.key_size = query_size, key_size
        self.query_proj = nn.Linear(query_size, key_size, bias=False)
        # one number for all pairs; under the activation it is not a constant that softmax ignores
        self.bias = nn.Parameter(torch.zeros(()))
        self.activation = activation

    def extra_repr(self) -> str:
        """Settings that print shows."""
        name = getattr(self.activation, "__name__", repr(self.activation))
        return f"query_size={self.query_size}, key_size={self.key_size}, activation={name}"

    def prepare(self, keys: Float[Tensor, "... K key"]) -> Float[Tensor, "... K key"]:
        """The keys themselves."""
        check_size("keys", keys, self.key_size, f"ActivatedGeneral(key_size={self.key_size})")
        return keys

    def forward(
        self, queries: Float[Tensor, "*#B Q query"], keys: Float[Tensor, "*#B K key"]
    ) -> Float[Tensor, "*B Q K"]:
        """Score every query against every key."""
        check_size("queries", queries, self.query_size, f"ActivatedGeneral(query_size={self.query_size})")
        return self.activation(dot_scores(self.query_proj(queries), keys) + self.bias)

    def lower(self, queries: Float[Tensor, "... Q query"], keys: Float[Tensor, "... K key"]) -> str:
        """The reason why there is none."""
        return "ActivatedGeneral applies an activation to each score, which no fused kernel supports"
