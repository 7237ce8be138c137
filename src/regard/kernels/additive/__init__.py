"""Additive scores."""

from regard.kernels.additive.reference import additive_scores

__all__ = ["additive_scores"]
