"""Gaussian scores."""

from regard.kernels.gaussian.features import dot_product_form
from regard.kernels.gaussian.reference import gaussian_scores, multiply_out, scaled

__all__ = [
    "dot_product_form",
    "gaussian_scores",
    "multiply_out",
    "scaled",
]
