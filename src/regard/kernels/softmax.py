"""Masked softmax.

    weights_j = exp(s_j) / sum_{allowed i} exp(s_i),   0 where not allowed

A query that may attend to no key gets zeros. A score of -inf counts as not allowed; scores of +inf share the weight.
"""

import torch
from jaxtyping import Bool, Float
from torch import Tensor


def masked_softmax(scores: Float[Tensor, "*B Q K"], mask: Bool[Tensor, "..."] | None = None) -> Float[Tensor, "*B Q K"]:
    """Softmax over the last dimension, where the mask is True."""
    if mask is not None:
        scores = scores.masked_fill(~mask, float("-inf"))
    # softmax computes inf - inf = NaN; clamped to the largest finite number, infinite scores share the weight
    scores = scores.clamp(max=torch.finfo(scores.dtype).max)
    if scores.shape[-1] == 0:
        return scores
    empty = scores.detach().amax(dim=-1, keepdim=True) == float("-inf")
    # the softmax of an empty query is 0 / 0, and so is its gradient: compute it on zeros and mask the result
    return torch.softmax(scores.masked_fill(empty, 0.0), dim=-1).masked_fill(empty, 0.0)
