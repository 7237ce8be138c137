"""Additive attention: the formula and its fused kernels. README.md beside this file explains the mathematics."""

from regard.kernels.additive.reference import AdditiveRequest, additive_scores, attend_additive_plain

__all__ = [
    "AdditiveRequest",
    "additive_scores",
    "attend_additive_plain",
]
