"""Linear attention: a dot product of features in place of the exponential, so that the past fits into one matrix.

    context_t = phi(q_t) S_t / (phi(q_t) . z_t),      S_t = S_{t-1} + phi(k_t) v_t^T,   z_t = z_{t-1} + phi(k_t)

Katharopoulos et al. 2020. https://arxiv.org/abs/2006.16236
A recurrent network in steps, attention under a causal mask in parallel: within a chunk the weights phi(q) . phi(k) are
formed, between chunks only S and z go on. The state's size does not depend on how much was read.

Shapes: B any leading dimensions, T tokens, d size of a query and a key, e of a value, f of a feature.
"""

from collections.abc import Callable
from dataclasses import dataclass

import torch
import torch.nn.functional as F
from jaxtyping import Float
from torch import Tensor, nn

FeatureMap = Callable[[Tensor], Tensor]
"""Applied to queries and keys alike, along the last dimension."""


def elu_plus_one(inputs: Float[Tensor, "*B size"]) -> Float[Tensor, "*B size"]:
    """The paper's features (equation 7), above 0 everywhere, so that no query finds nothing."""
    return F.elu(inputs) + 1


def identity(inputs: Float[Tensor, "*B size"]) -> Float[Tensor, "*B size"]:
    """Vectors as they are: weights may be below 0, so use it without the norm."""
    return inputs


@dataclass(frozen=True, kw_only=True)
class LinearState:
    """All that was read: the sum of phi(k) v^T and the sum of phi(k)."""

    sums: Float[Tensor, "*B f e"]
    norms: Float[Tensor, "*B f"]


@dataclass(frozen=True, kw_only=True)
class LinearRead:
    """What was read at every place, and the state after the last."""

    context: Float[Tensor, "*B T e"]
    state: LinearState


def linear_attention(
    queries: Float[Tensor, "*B T d"],
    keys: Float[Tensor, "*B T d"],
    values: Float[Tensor, "*B T e"],
    *,
    feature_map: FeatureMap = elu_plus_one,
    normalised: bool = True,
    state: LinearState | None = None,
    chunk: int = 64,
) -> LinearRead:
    """Causal, from a state or from nothing; a place whose weights sum to 0 reads their sum as it is."""
    if chunk < 1:
        raise ValueError(f"chunk is {chunk}, expected 1 token or more: 1 is the recurrent form.")
    queries, keys = feature_map(queries), feature_map(keys)
    if state is None:
        sums = keys.new_zeros(*keys.shape[:-2], keys.shape[-1], values.shape[-1])
        norms = keys.new_zeros(*keys.shape[:-2], keys.shape[-1])
    else:
        sums, norms = state.sums, state.norms
    read = []
    for some in zip(*(part.split(chunk, dim=-2) for part in (queries, keys, values)), strict=True):
        query, key, value = some
        weights = (query @ key.transpose(-1, -2)).tril()
        context = weights @ value + query @ sums
        if normalised:
            total = weights.sum(dim=-1, keepdim=True) + query @ norms.unsqueeze(-1)
            context = context / total.masked_fill(total == 0, 1.0)
        read.append(context)
        sums, norms = sums + key.transpose(-1, -2) @ value, norms + key.sum(dim=-2)
    return LinearRead(context=torch.cat(read, dim=-2), state=LinearState(sums=sums, norms=norms))


class LinearAttention(nn.Module):
    """Causal linear self-attention with heads, from a state to a state."""

    def __init__(
        self, hidden_size: int, num_heads: int, *, feature_map: FeatureMap = elu_plus_one, normalised: bool = True
    ) -> None:
        super().__init__()
        check_heads(hidden_size, num_heads)
        self.num_heads, self.feature_map, self.normalised = num_heads, feature_map, normalised
        self.query_proj, self.key_proj, self.value_proj, self.output_proj = (
            nn.Linear(hidden_size, hidden_size) for _ in range(4)
        )

    def start(self, batch_size: int) -> LinearState:
        """Nothing read yet."""
        weight = self.query_proj.weight
        size = weight.shape[0] // self.num_heads
        features = self.feature_map(weight.new_zeros(size)).shape[-1]
        heads = (batch_size, self.num_heads, features)
        return LinearState(sums=weight.new_zeros(*heads, size), norms=weight.new_zeros(*heads))

    def forward(self, states: Float[Tensor, "B T size"], state: LinearState | None = None) -> LinearRead:
        """Every place reads itself and those before it."""
        queries, keys, values = (
            split_heads(proj(states), self.num_heads) for proj in (self.query_proj, self.key_proj, self.value_proj)
        )
        read = linear_attention(
            queries, keys, values, feature_map=self.feature_map, normalised=self.normalised, state=state
        )
        return LinearRead(context=self.output_proj(join_heads(read.context)), state=read.state)


def check_heads(hidden_size: int, num_heads: int) -> None:
    """Heads share the size evenly."""
    if num_heads < 1 or hidden_size % num_heads:
        raise ValueError(
            f"hidden_size {hidden_size} does not divide into {num_heads} heads. Take a multiple of the number of heads."
        )


def split_heads(states: Float[Tensor, "B T size"], num_heads: int) -> Float[Tensor, "B heads T head"]:
    """A head's share of every place."""
    return states.unflatten(-1, (num_heads, -1)).transpose(1, 2)


def join_heads(states: Float[Tensor, "B heads T head"]) -> Float[Tensor, "B T size"]:
    """All heads of a place side by side."""
    return states.transpose(1, 2).flatten(-2)
