"""Additive scores and attention as the formula has them.

    score(q, k) = energy . tanh(q + k),   context = softmax(scores) values

Bahdanau, Cho and Bengio 2015, section A.1.2. https://arxiv.org/abs/1409.0473
"""

from functools import partial

import torch
import torch.nn.functional as F
from jaxtyping import Float
from torch import Tensor

from regard.kernels.additive.read import AdditiveRead, Rows
from regard.kernels.query_blocks import in_query_blocks
from regard.kernels.softmax import masked_softmax


def pair_scores(
    queries: Float[Tensor, "... Q H"], keys: Float[Tensor, "... K H"], *, energy: Float[Tensor, " H"]
) -> Float[Tensor, "... Q K"]:
    """All comparisons at once."""
    return torch.tanh(queries.unsqueeze(-2) + keys.unsqueeze(-3)) @ energy.to(queries.dtype)


def additive_scores(
    queries: Float[Tensor, "*#B Q H"], keys: Float[Tensor, "*#B K H"], energy: Float[Tensor, " H"]
) -> Float[Tensor, "*B Q K"]:
    """Scores of every projected query against every projected key."""
    return in_query_blocks(partial(pair_scores, energy=energy), queries, keys)


def read_rows_plain(rows: Rows) -> Float[Tensor, "B Q value"]:
    """The same of rows as kernels take them, without dropout; keys that nobody may read may hold anything."""
    keys, values, places = rows.keys, rows.values, torch.arange(rows.keys.shape[1], device=rows.keys.device)
    allowed = torch.ones(1, 1, len(places), dtype=torch.bool, device=places.device)
    if rows.real is not None:
        keys, values = (side.masked_fill(~rows.real[..., None], 0.0) for side in (keys, values))
        allowed = allowed & rows.real[:, None]
    if rows.low is not None:
        allowed = allowed & (places >= rows.low[..., None])
    if rows.high is not None:
        allowed = allowed & (places < rows.high[..., None])
    if rows.written is not None:
        allowed = allowed & rows.written
    weights = masked_softmax(additive_scores(rows.queries, keys, rows.energy), allowed)
    return weights.to(values.dtype) @ values


def read_additive_plain(read: AdditiveRead) -> Float[Tensor, "... Q value"]:
    """Forms every weight."""
    scores = additive_scores(read.queries, read.keys, read.energy)
    weights = masked_softmax(scores, read.allowed())
    weights = F.dropout(weights, read.dropout) if read.dropout else weights
    return weights.to(read.values.dtype) @ read.values
