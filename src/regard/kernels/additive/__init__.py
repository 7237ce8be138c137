"""Additive attention: the formula, and the kernels held to it. README.md beside this file has the maths."""

from regard.kernels.additive.reference import AdditiveRequest, additive_scores, attend_additive_plain

__all__ = [
    "AdditiveRequest",
    "additive_scores",
    "attend_additive_plain",
]
