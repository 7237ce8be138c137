"""Kernels of a distance, in history order, and the same as scores of attention.

Kernels: how much a training input counts at a distance, in history order.

    f(x) = sum_i K(|u_i|) y_i / sum_i K(|u_i|),   u_i = (x - x_i) / h

A kernel is a function of the distance |u| in bandwidths. The Gaussian reaches everywhere; the others are 0 from one
bandwidth on.

Kernels as scores of attention: with them `regard.attend` is Nadaraya-Watson regression, weights and gradients too.

    Gaussian      score = log w_i - 1/2 |x - x_i|^2      softmax
    compact       score = w_i K(|x - x_i|)               ratio

Queries and keys are counted in bandwidths; w_i are sample weights.
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
"""A distance of one bandwidth, give or take rounding, is still one bandwidth."""


@dataclass(frozen=True, kw_only=True)
class Kernel:
    """One kernel; `compact` ones end at one bandwidth, and one without a `slope` cannot be learned by its gradient."""

    profile: Callable[[Float[Tensor, "..."]], Float[Tensor, "..."]]
    formula: str
    year: int
    paper: str
    compact: bool = True
    slope: bool = True


def boxcar(distances: Float[Tensor, "..."]) -> Float[Tensor, "..."]:
    """All that is near counts the same."""
    return (distances <= 1 + ROUNDING).to(distances.dtype)


def triangular(distances: Float[Tensor, "..."]) -> Float[Tensor, "..."]:
    """Falls evenly to 0."""
    return (1 - distances).clamp(min=0.0)


def gaussian(distances: Float[Tensor, "..."]) -> Float[Tensor, "..."]:
    """Falls off smoothly, never to 0; its logarithm is the Gaussian score."""
    return torch.exp(-distances.square() / 2)


def epanechnikov(distances: Float[Tensor, "..."]) -> Float[Tensor, "..."]:
    """A parabola: the least mean squared error of all kernels."""
    return (1 - distances.square()).clamp(min=0.0)


KERNELS = {
    "boxcar": Kernel(
        profile=boxcar, formula="1 if |u| <= 1", year=1956, paper="https://doi.org/10.1214/aoms/1177728190", slope=False
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


def kernel_named(name: object) -> Kernel:
    """The kernel of that name, or an error that names the nearest."""
    if isinstance(name, str) and name in KERNELS:
        return KERNELS[name]
    near = nearest(str(name), KERNELS)
    raise ValueError(f"kernel is {name!r}, did you mean {near!r}? There are {', '.join(map(repr, KERNELS))}.")


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


def attention_of(kernel: Kernel, log_weights: Float[Tensor, " K"]) -> tuple[Score, Alignment]:
    """The score and the alignment that together are this kernel."""
    if kernel.compact:
        return CompactScore(kernel, log_weights=log_weights), Ratio()
    return WeightedGaussian(log_weights=log_weights), Softmax()
