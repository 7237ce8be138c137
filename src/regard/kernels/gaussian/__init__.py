"""Gaussian scores."""

from regard.kernels.gaussian.reference import gaussian_scores

__all__ = ["gaussian_scores"]
