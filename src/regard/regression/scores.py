"""Kernels as scores of attention: with them `regard.attend` is Nadaraya-Watson regression, weights and gradients too.

    Gaussian      score = log w_i - 1/2 |x - x_i|^2      softmax
    compact       score = w_i K(|x - x_i|)               ratio

Queries and keys are counted in bandwidths; w_i are sample weights.
"""

from dataclasses import replace

import torch
from jaxtyping import Float
from torch import Tensor

from regard.attention.alignments import Ratio, Softmax
from regard.attention.scores import Gaussian
from regard.contracts import Align, Lowered, Score
from regard.kernels import multiply_out
from regard.regression.kernels import Kernel

GAUSSIAN = Gaussian(width=1.0).requires_grad_(False)


class WeightedGaussian:
    """The Gaussian score with a sample weight for each key."""

    def __init__(self, *, log_weights: Float[Tensor, " K"]) -> None:
        self.log_weights = log_weights

    def prepare(self, keys: Float[Tensor, "K size"]) -> Float[Tensor, "K size"]:
        """Keys are compared as they are."""
        return keys

    def __call__(self, queries: Float[Tensor, "Q size"], keys: Float[Tensor, "K size"]) -> Float[Tensor, "Q K"]:
        """Score every query against every key."""
        scores: Float[Tensor, "Q K"] = GAUSSIAN(queries, keys) + self.log_weights
        return scores

    def lower(self, queries: Float[Tensor, "Q size"], keys: Float[Tensor, "K size"]) -> Lowered | str:
        """A weight adds to the bias of its key."""
        lowered = multiply_out(GAUSSIAN.lower(queries, keys))
        if isinstance(lowered, str):
            return lowered
        assert lowered.key_bias is not None
        return replace(lowered, key_bias=lowered.key_bias + self.log_weights)


class CompactScore:
    """The kernel of a distance is itself the score, for the alignment `Ratio`."""

    def __init__(self, kernel: Kernel, *, log_weights: Float[Tensor, " K"]) -> None:
        self.kernel, self.log_weights = kernel, log_weights

    def prepare(self, keys: Float[Tensor, "K size"]) -> Float[Tensor, "K size"]:
        """Keys are compared as they are."""
        return keys

    def __call__(self, queries: Float[Tensor, "Q size"], keys: Float[Tensor, "K size"]) -> Float[Tensor, "Q K"]:
        """Score every query against every key."""
        distances = torch.cdist(queries, keys, compute_mode="donot_use_mm_for_euclid_dist")
        return self.kernel.profile(distances) * self.log_weights.exp()

    def lower(self, queries: Float[Tensor, "Q size"], keys: Float[Tensor, "K size"]) -> str:
        """No dot product."""
        return "a kernel that ends is no dot product under a softmax"


def attention_of(kernel: Kernel, log_weights: Float[Tensor, " K"]) -> tuple[Score, Align]:
    """The score and the alignment that together are this kernel."""
    if kernel.compact:
        return CompactScore(kernel, log_weights=log_weights), Ratio()
    return WeightedGaussian(log_weights=log_weights), Softmax()
