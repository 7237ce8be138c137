"""Additive attention: the formula, and the kernels held to it. README.md beside this file has the maths."""

from regard.kernels.additive.reference import AdditiveRead, additive_scores, read_additive_plain

__all__ = [
    "AdditiveRead",
    "additive_scores",
    "read_additive_plain",
]
