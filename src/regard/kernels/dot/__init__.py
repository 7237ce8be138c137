"""Dot-product attention: the formula, and the kernels held to it."""

from regard.kernels.dot.read import DotRead
from regard.kernels.dot.reference import dot_scores, read_plain, spread_groups

__all__ = ["DotRead", "dot_scores", "read_plain", "spread_groups"]
