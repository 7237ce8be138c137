"""Gaussian scores."""

from regard.kernels.gaussian.features import features_serve, gaussian_features
from regard.kernels.gaussian.reference import gaussian_scores

__all__ = ["features_serve", "gaussian_features", "gaussian_scores"]
