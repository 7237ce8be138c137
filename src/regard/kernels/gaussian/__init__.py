"""Gaussian scores."""

from regard.kernels.gaussian.reference import GaussianRead, gaussian_scores, multiply_out, scaled

__all__ = [
    "GaussianRead",
    "gaussian_scores",
    "multiply_out",
    "scaled",
]
