"""Statistics of attention heads, computed from their weights alone.

    entropy       = - sum_j a_ij log a_ij
    mean distance = mean_i sum_j |i - j| a_ij
    diagonal mass = mean_i sum_{|i - j| <= 1} a_ij

Shapes: H heads, Q queries, K keys.
"""

import torch
from jaxtyping import Float
from torch import Tensor


def entropy(weights: Float[Tensor, "H Q K"]) -> Float[Tensor, "H Q"]:
    """Entropy of each query's weights in nats; 0 for a query without any weight."""
    # weights that were rounded or replaced may be slightly negative, where entr is -inf
    return torch.special.entr(weights.clamp_min(0)).sum(-1)


def mean_over_active(values: Float[Tensor, "H Q"], weights: Float[Tensor, "H Q K"]) -> Float[Tensor, " H"]:
    """The mean over the queries that have any weight."""
    active = weights.sum(-1) > 0
    # a head without such a query gets 0, not 0 / 0
    return (values * active).sum(-1) / active.sum(-1).clamp_min(1)


def mean_distance(weights: Float[Tensor, "H Q K"], *, stretched: bool = False) -> Float[Tensor, " H"]:
    """The mean distance in tokens at which a head attends; see `distances`."""
    return mean_over_active((weights * distances(weights, stretched=stretched)).sum(-1), weights)


def diagonal_mass(weights: Float[Tensor, "H Q K"], *, stretched: bool = False) -> Float[Tensor, " H"]:
    """The mean weight within one token of the query's own position; see `distances`."""
    is_near = distances(weights, stretched=stretched) <= 1
    return mean_over_active((weights * is_near).sum(-1), weights)


def distances(weights: Float[Tensor, "H Q K"], *, stretched: bool) -> Float[Tensor, "Q K"]:
    """The number of keys between a query's own position and each key.

    `stretched` maps the first and last query to the first and last key, as for a target and its source.
    """
    num_queries, num_keys = weights.shape[-2:]
    # a float position for each query; `stretched` spreads the queries evenly over the keys
    positions = torch.arange(num_queries) * ((num_keys - 1) / max(num_queries - 1, 1) if stretched else 1.0)
    return (positions[:, None] - torch.arange(num_keys)).abs().to(weights.device)
