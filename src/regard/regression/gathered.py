"""Few keys matter to each query, and not the same ones: each gathers its own window."""

import math

import torch
from jaxtyping import Bool, Float, Int
from torch import Tensor

from regard.regression.kernels import Kernel
from regard.regression.sample import Sample
from regard.regression.windows import Windows


def gathered_totals(near: Windows, sample: Sample, kernel: Kernel | None) -> Float[Tensor, "Q rows"]:
    """Sums of weighted values and of weights, up to a factor per query; without a kernel, over the nearest keys."""
    indices = near.low[:, None] + torch.arange(max(int((near.high - near.low).max()), 1))
    inside, indices = indices < near.high[:, None], indices.clamp(max=len(sample.keys) - 1)
    if near.hidden is not None:
        inside &= indices != near.hidden[:, None]
    gaussian = kernel is not None and not kernel.compact
    weights = (gaussian_weights if gaussian else distance_weights)(near, sample, kernel, indices, inside)
    return torch.stack([(weights * row[indices]).sum(dim=-1) for row in sample.values], dim=-1)


def gaussian_weights(
    near: Windows, sample: Sample, kernel: Kernel | None, indices: Int[Tensor, "Q K"], inside: Bool[Tensor, "Q K"]
) -> Float[Tensor, "Q K"]:
    """exp(score - highest score), counted from a near key, not from the query: see `fused.gaussian_totals`."""
    centre = sample.keys[near.nearest]
    keys = sample.keys[indices] - centre[:, None]
    scores = torch.einsum("qkd,qd->qk", keys, near.queries - centre) - keys.square().sum(dim=-1) / 2
    scores = (scores + sample.log_weights[indices]).masked_fill(~inside, -math.inf)
    return (scores - scores.amax(dim=-1, keepdim=True)).exp()


def distance_weights(
    near: Windows, sample: Sample, kernel: Kernel | None, indices: Int[Tensor, "Q K"], inside: Bool[Tensor, "Q K"]
) -> Float[Tensor, "Q K"]:
    """The kernel of the distance, times the sample weight."""
    distances = (near.queries[:, None] - sample.keys[indices]).norm(dim=-1).masked_fill(~inside, math.inf)
    if kernel is None:
        weights = (distances == distances.amin(dim=-1, keepdim=True)).to(distances.dtype)
    else:
        weights = kernel.profile(distances)
    return weights * sample.log_weights[indices].exp()
