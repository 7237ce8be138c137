"""Masked softmax: a distribution over the keys one may look at.

    weights_j = exp(s_j) / sum_{allowed i} exp(s_i),   0 where not allowed

A row with nothing allowed is all zeros. A score of -inf is a key that may not be read; scores of +inf share the row.
"""

import torch
from jaxtyping import Bool, Float
from torch import Tensor


def masked_softmax(scores: Float[Tensor, "*B Q K"], mask: Bool[Tensor, "..."] | None = None) -> Float[Tensor, "*B Q K"]:
    """Softmax over the last dimension, where the mask is True."""
    if mask is not None:
        scores = scores.masked_fill(~mask, float("-inf"))
    # inf - inf is NaN in every softmax; as the largest finite number the infinities share the row
    scores = scores.clamp(max=torch.finfo(scores.dtype).max)
    if scores.shape[-1] == 0:
        return scores
    empty = scores.detach().amax(dim=-1, keepdim=True) == float("-inf")
    # softmax of an empty row is 0 / 0, and its gradient too: give it numbers first, zeros after
    return torch.softmax(scores.masked_fill(empty, 0.0), dim=-1).masked_fill(empty, 0.0)
