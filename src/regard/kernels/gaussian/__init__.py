"""Gaussian scores."""

from regard.kernels.gaussian.reference import GaussianRequest, gaussian_scores, multiply_out, scaled

__all__ = [
    "GaussianRequest",
    "gaussian_scores",
    "multiply_out",
    "scaled",
]
