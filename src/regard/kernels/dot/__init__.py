"""Dot-product attention: the formula and its fused kernels."""

from regard.kernels.dot.overflow import may_overflow
from regard.kernels.dot.packed import PackedRequest, attend_packed, packed_unsupported_reasons
from regard.kernels.dot.reference import DotRequest, attend_plain, dot_scores, expand_groups, join_groups, split_groups

__all__ = [
    "DotRequest",
    "PackedRequest",
    "attend_packed",
    "attend_plain",
    "dot_scores",
    "expand_groups",
    "join_groups",
    "may_overflow",
    "packed_unsupported_reasons",
    "split_groups",
]
