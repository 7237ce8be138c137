"""Gaussian scores."""

from regard.kernels.gaussian.multiplied import multiply_out, scaled
from regard.kernels.gaussian.read import GaussianRead
from regard.kernels.gaussian.reference import gaussian_scores

__all__ = ["GaussianRead", "gaussian_scores", "multiply_out", "scaled"]
