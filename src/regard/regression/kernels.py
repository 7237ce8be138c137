"""Kernels of Nadaraya-Watson regression, in history order, and the same kernels as scores of attention.

    f(x) = sum_i w_i K(|u_i|) y_i / sum_i w_i K(|u_i|),   u_i = (x - x_i) / h

A kernel is a function of the distance |u| in bandwidths. The Gaussian is positive everywhere; the others are 0 from one
bandwidth on. With the scores below, `regard.attend` is this regression, weights and gradients included:

    Gaussian      score = log w_i - 1/2 |u_i|^2      softmax
    compact       score = w_i K(|u_i|)               ratio

Queries and keys are measured in bandwidths; w_i are sample weights. Each kernel's paper is in `KERNELS`.
"""

from collections.abc import Callable
from dataclasses import dataclass, replace

import torch
from jaxtyping import Float
from torch import Tensor

from regard._utils import nearest
from regard.attention.alignments import Ratio, Softmax
from regard.attention.scores import Gaussian
from regard.contracts import Alignment, Lowered, Score
from regard.kernels.gaussian import multiply_out

ROUNDING = 1e-9
"""Tolerance of the boxcar's edge: a rounded distance of one bandwidth still counts."""


@dataclass(frozen=True, kw_only=True)
class Kernel:
    """One kernel.

    A `compact` kernel is 0 from one bandwidth on. The bandwidth of one that is not `differentiable` cannot be learned
    by gradient descent.
    """

    profile: Callable[[Float[Tensor, "..."]], Float[Tensor, "..."]]
    formula: str
    year: int
    paper: str
    compact: bool = True
    differentiable: bool = True


def boxcar(distances: Float[Tensor, "..."]) -> Float[Tensor, "..."]:
    """1 within one bandwidth."""
    # with a tolerance: a key exactly one bandwidth away must count whatever its rounding
    return (distances <= 1 + ROUNDING).to(distances.dtype)


def triangular(distances: Float[Tensor, "..."]) -> Float[Tensor, "..."]:
    """Decreases linearly to 0."""
    return (1 - distances).clamp(min=0.0)


def gaussian(distances: Float[Tensor, "..."]) -> Float[Tensor, "..."]:
    """Smooth and positive everywhere; its logarithm is the Gaussian score."""
    return torch.exp(-distances.square() / 2)


def epanechnikov(distances: Float[Tensor, "..."]) -> Float[Tensor, "..."]:
    """A parabola, which has the least asymptotic mean squared error of all kernels."""
    return (1 - distances.square()).clamp(min=0.0)


KERNELS = {
    "boxcar": Kernel(
        profile=boxcar,
        formula="1 if |u| <= 1",
        year=1956,
        paper="https://doi.org/10.1214/aoms/1177728190",
        differentiable=False,
    ),
    "triangular": Kernel(
        profile=triangular, formula="max(1 - |u|, 0)", year=1962, paper="https://doi.org/10.1214/aoms/1177704472"
    ),
    "gaussian": Kernel(
        profile=gaussian,
        formula="exp(-1/2 |u|^2)",
        year=1964,
        paper="https://doi.org/10.1137/1109020",
        compact=False,
    ),
    "epanechnikov": Kernel(
        profile=epanechnikov, formula="max(1 - |u|^2, 0)", year=1969, paper="https://doi.org/10.1137/1114019"
    ),
}


def find_kernel(name: object) -> Kernel:
    """The kernel of this name; the error suggests the most similar name."""
    if isinstance(name, str) and name in KERNELS:
        return KERNELS[name]
    suggestion = nearest(str(name), KERNELS)
    # ValueError for wrong types too, as scikit-learn's own checks of parameters
    raise ValueError(f"kernel is {name!r}, did you mean {suggestion!r}? There are {', '.join(map(repr, KERNELS))}.")


# width 1: queries and keys are in bandwidths already
GAUSSIAN = Gaussian(width=1.0).requires_grad_(False)


class WeightedGaussian:
    """The Gaussian score with a sample weight for each key."""

    def __init__(self, *, log_weights: Float[Tensor, " K"]) -> None:
        self.log_weights = log_weights

    def prepare(self, keys: Float[Tensor, "K size"]) -> Float[Tensor, "K size"]:
        """Return the keys unchanged."""
        return keys

    def __call__(self, queries: Float[Tensor, "Q size"], keys: Float[Tensor, "K size"]) -> Float[Tensor, "Q K"]:
        """Score every query against every key."""
        scores: Float[Tensor, "Q K"] = GAUSSIAN(queries, keys) + self.log_weights
        return scores

    def lower(self, queries: Float[Tensor, "Q size"], keys: Float[Tensor, "K size"]) -> Lowered | str:
        """Lower as the Gaussian score, with the log-weight added to the bias of its key."""
        lowered = multiply_out(GAUSSIAN.lower(queries, keys))
        if isinstance(lowered, str):
            return lowered
        # the Gaussian lowers to q . k - 1/2 |k|^2, whose last term is a bias
        assert lowered.key_bias is not None
        return replace(lowered, key_bias=lowered.key_bias + self.log_weights)


class CompactScore:
    """The kernel of a distance as the score, for the alignment `Ratio`."""

    def __init__(self, kernel: Kernel, *, log_weights: Float[Tensor, " K"]) -> None:
        self.kernel, self.log_weights = kernel, log_weights

    def prepare(self, keys: Float[Tensor, "K size"]) -> Float[Tensor, "K size"]:
        """Return the keys unchanged."""
        return keys

    def __call__(self, queries: Float[Tensor, "Q size"], keys: Float[Tensor, "K size"]) -> Float[Tensor, "Q K"]:
        """Score every query against every key."""
        # by differences: near one bandwidth, a distance from squared norms could fall on the wrong side
        distances = torch.cdist(queries, keys, compute_mode="donot_use_mm_for_euclid_dist")
        return self.kernel.profile(distances) * self.log_weights.exp()

    def lower(self, queries: Float[Tensor, "Q size"], keys: Float[Tensor, "K size"]) -> str:
        """Refuse: it is not a dot product."""
        return "a compact kernel is not a softmax of dot products"


def kernel_attention(kernel: Kernel, log_weights: Float[Tensor, " K"]) -> tuple[Score, Alignment]:
    """The score and the alignment that together compute this kernel's regression."""
    if kernel.compact:
        return CompactScore(kernel, log_weights=log_weights), Ratio()
    return WeightedGaussian(log_weights=log_weights), Softmax()
