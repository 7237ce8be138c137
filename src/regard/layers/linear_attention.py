"""Linear attention: a dot product of features replaces the exponential, so the state is one matrix.

    context_t = phi(q_t) S_t / (phi(q_t) . z_t),      S_t = S_{t-1} + phi(k_t) v_t^T,   z_t = z_{t-1} + phi(k_t)

Katharopoulos et al. 2020. https://arxiv.org/abs/2006.16236
Stepwise it is a recurrent network; in parallel it is causal attention: within a chunk the weights phi(q) . phi(k) are
formed, between chunks only S and z are carried. The size of the state does not depend on the length.

Shapes: B any leading dimensions, T tokens, d size of a query and a key, e of a value, f of a feature.
"""

from collections.abc import Callable
from dataclasses import dataclass

import torch
import torch.nn.functional as F
from jaxtyping import Float
from torch import Tensor, nn

FeatureMap = Callable[[Tensor], Tensor]
"""Applied to queries and keys, along the last dimension."""


def elu_plus_one(inputs: Float[Tensor, "*B size"]) -> Float[Tensor, "*B size"]:
    """The paper's features (equation 7); they are positive, so the normaliser is never 0."""
    return F.elu(inputs) + 1


def identity(inputs: Float[Tensor, "*B size"]) -> Float[Tensor, "*B size"]:
    """The inputs unchanged; weights may be negative, so use it with normalised=False."""
    return inputs


@dataclass(frozen=True, kw_only=True)
class LinearState:
    """The sum of phi(k) v^T and the sum of phi(k) over all positions so far."""

    sums: Float[Tensor, "*B f e"]
    norms: Float[Tensor, "*B f"]


@dataclass(frozen=True, kw_only=True)
class LinearAttended:
    """The context at every position, and the state after the last."""

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
) -> LinearAttended:
    """Causal linear attention, from a state or from zeros; weights that sum to 0 are not normalised."""
    if chunk < 1:
        raise ValueError(f"chunk is {chunk}, expected 1 token or more: 1 is the recurrent form.")
    queries, keys = feature_map(queries), feature_map(keys)
    if state is None:
        # (.., f, e) and (.., f), from the mapped keys: f may differ from the size of a key
        sums = keys.new_zeros(*keys.shape[:-2], keys.shape[-1], values.shape[-1])
        norms = keys.new_zeros(*keys.shape[:-2], keys.shape[-1])
    else:
        sums, norms = state.sums, state.norms
    contexts = []
    # the last chunk may be shorter; a text of length 0 is one empty chunk, so there is always one to concatenate
    for parts in zip(*(part.split(chunk, dim=-2) for part in (queries, keys, values)), strict=True):
        query, key, value = parts
        # within the chunk, causal including the own position
        weights = (query @ key.transpose(-1, -2)).tril()
        # earlier chunks contribute through the state only
        context = weights @ value + query @ sums
        if normalised:
            # (.., T, 1), which divides all features of a position
            total = weights.sum(dim=-1, keepdim=True) + query @ norms.unsqueeze(-1)
            # a total of 0 would give NaN
            context = context / total.masked_fill(total == 0, 1.0)
        contexts.append(context)
        # after the context: the chunk's own keys are in `weights` already
        sums, norms = sums + key.transpose(-1, -2) @ value, norms + key.sum(dim=-2)
    return LinearAttended(context=torch.cat(contexts, dim=-2), state=LinearState(sums=sums, norms=norms))


class LinearAttention(nn.Module):
    """Multi-head causal linear self-attention."""

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
        """A state of zeros."""
        weight = self.query_proj.weight
        size = weight.shape[0] // self.num_heads
        # a feature map may change the size of a head
        features = self.feature_map(weight.new_zeros(size)).shape[-1]
        heads = (batch_size, self.num_heads, features)
        return LinearState(sums=weight.new_zeros(*heads, size), norms=weight.new_zeros(*heads))

    def forward(self, states: Float[Tensor, "B T size"], state: LinearState | None = None) -> LinearAttended:
        """Every position attends to itself and to earlier positions."""
        queries, keys, values = (
            split_heads(proj(states), self.num_heads) for proj in (self.query_proj, self.key_proj, self.value_proj)
        )
        attended = linear_attention(
            queries, keys, values, feature_map=self.feature_map, normalised=self.normalised, state=state
        )
        return LinearAttended(context=self.output_proj(join_heads(attended.context)), state=attended.state)


def check_heads(hidden_size: int, num_heads: int) -> None:
    """Check that the size is a multiple of the number of heads."""
    if num_heads < 1 or hidden_size % num_heads:
        raise ValueError(
            f"hidden_size {hidden_size} does not divide into {num_heads} heads. Choose a multiple of num_heads."
        )


def split_heads(states: Float[Tensor, "B T size"], num_heads: int) -> Float[Tensor, "B heads T head"]:
    """Split the last dimension into heads."""
    return states.unflatten(-1, (num_heads, -1)).transpose(1, 2)


def join_heads(states: Float[Tensor, "B heads T head"]) -> Float[Tensor, "B T size"]:
    """Concatenate the heads of each position."""
    return states.transpose(1, 2).flatten(-2)
