"""Dot-product attention: the formula, and the kernels held to it."""

from regard.kernels.dot.packed import PackedRead, packed_refusals, read_packed
from regard.kernels.dot.reference import DotRead, dot_scores, join_groups, part_groups, read_plain, spread_groups

__all__ = [
    "DotRead",
    "PackedRead",
    "dot_scores",
    "join_groups",
    "packed_refusals",
    "part_groups",
    "read_packed",
    "read_plain",
    "spread_groups",
]
