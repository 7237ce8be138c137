"""Figures of attention heads, from their weights alone.

Shapes: H heads, Q queries, K keys.
"""

import torch
from jaxtyping import Float
from torch import Tensor


def entropy(weights: Float[Tensor, "H Q K"]) -> Float[Tensor, "H Q"]:
    """In nats; 0 for a query without any weight."""
    return torch.special.entr(weights.clamp_min(0)).sum(-1)


def mean_over_active(numbers: Float[Tensor, "H Q"], weights: Float[Tensor, "H Q K"]) -> Float[Tensor, " H"]:
    """The mean over the queries that attend to anything."""
    active = weights.sum(-1) > 0
    return (numbers * active).sum(-1) / active.sum(-1).clamp_min(1)


def mean_distance(weights: Float[Tensor, "H Q K"], *, stretched: bool = False) -> Float[Tensor, " H"]:
    """How many tokens away a head attends, on average; see `distances`."""
    return mean_over_active((weights * distances(weights, stretched=stretched)).sum(-1), weights)


def diagonal_mass(weights: Float[Tensor, "H Q K"], *, stretched: bool = False) -> Float[Tensor, " H"]:
    """The weight within one token of the query's own position; see `distances`."""
    near = distances(weights, stretched=stretched) <= 1
    return mean_over_active((weights * near).sum(-1), weights)


def distances(weights: Float[Tensor, "H Q K"], *, stretched: bool) -> Float[Tensor, "Q K"]:
    """How many keys lie between a query's own position and each key.

    `stretched` lays one axis along the other, as between a target and its source.
    """
    queries, keys = weights.shape[-2:]
    own = torch.arange(queries) * ((keys - 1) / max(queries - 1, 1) if stretched else 1.0)
    return (own[:, None] - torch.arange(keys)).abs().to(weights.device)
