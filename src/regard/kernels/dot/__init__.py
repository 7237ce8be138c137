"""Dot-product attention: the formula, and the kernels held to it."""

from regard.kernels.dot.packed import PackedRead, packed_refusals, read_packed
from regard.kernels.dot.read import DotRead
from regard.kernels.dot.reference import dot_scores, read_plain, spread_groups

__all__ = ["DotRead", "PackedRead", "dot_scores", "packed_refusals", "read_packed", "read_plain", "spread_groups"]
