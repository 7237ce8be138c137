"""Gaussian scores as the formula has them: by differences, which near neighbours far from 0 keep all digits of.

score(q, k) = -1/2 |q - k|^2
"""

import torch
from jaxtyping import Float
from torch import Tensor

from regard.kernels.query_blocks import in_query_blocks


def pair_scores(queries: Float[Tensor, "... Q size"], keys: Float[Tensor, "... K size"]) -> Float[Tensor, "... Q K"]:
    """All differences at once; half precision is squared and summed in float32."""
    apart = queries.unsqueeze(-2) - keys.unsqueeze(-3)
    wide = apart.to(torch.promote_types(apart.dtype, torch.float32))
    return (-wide.square().sum(dim=-1) / 2).to(apart.dtype)


def gaussian_scores(queries: Float[Tensor, "*#B Q size"], keys: Float[Tensor, "*#B K size"]) -> Float[Tensor, "*B Q K"]:
    """Scores of every query against every key."""
    return in_query_blocks(pair_scores, queries, keys)
