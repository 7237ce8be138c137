"""Kernels: how much a training input counts at a distance, in history order.

    f(x) = sum_i K(|u_i|) y_i / sum_i K(|u_i|),   u_i = (x - x_i) / h

A kernel is a function of the distance |u| in bandwidths. The Gaussian reaches everywhere; the others are 0 from one
bandwidth on.
"""

from collections.abc import Callable
from dataclasses import dataclass

import torch
from jaxtyping import Float
from torch import Tensor

from regard.contracts import nearest

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
