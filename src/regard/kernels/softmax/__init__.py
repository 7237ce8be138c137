"""Masked softmax."""

from regard.kernels.softmax.reference import masked_softmax

__all__ = ["masked_softmax"]
