"""Queries, keys and values from one packed matrix, or from three.

Shapes: leading dimensions of any layout, E embed_dim, packed 3 E.
"""

import torch.nn.functional as F
from jaxtyping import Float
from torch import Tensor

Three = tuple[Tensor, Tensor, Tensor]


def project_packed(
    query: Float[Tensor, "*Q E"],
    key: Float[Tensor, "*K E"],
    value: Float[Tensor, "*K E"],
    weight: Float[Tensor, "packed E"],
    bias: Float[Tensor, " packed"] | None,
) -> Three:
    """One product for all that comes from the same tensor: all three in self-attention, keys and values of a memory."""
    size = query.shape[-1]
    if key is not value:
        return project(query, key, value, weight.chunk(3), bias)
    if query is key:
        queries, keys, values = F.linear(query, weight, bias).chunk(3, dim=-1)
        return queries, keys, values
    biases = (None, None) if bias is None else (bias[:size], bias[size:])
    keys, values = F.linear(key, weight[size:], biases[1]).chunk(2, dim=-1)
    return F.linear(query, weight[:size], biases[0]), keys, values


def project(
    query: Float[Tensor, "*Q query"],
    key: Float[Tensor, "*K key"],
    value: Float[Tensor, "*K value"],
    weights: tuple[Tensor, ...],
    bias: Float[Tensor, " packed"] | None,
) -> Three:
    """Each with its own matrix (E, its size); the biases come in one vector."""
    biases = (None, None, None) if bias is None else bias.chunk(3)
    queries, keys, values = map(F.linear, (query, key, value), weights, biases)
    return queries, keys, values
