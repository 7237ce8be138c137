"""Fused maths; nothing here knows a model."""

from regard.kernels.additive import AdditiveRead, additive_scores
from regard.kernels.choose import ADDITIVE_PATHS, DOT_PATHS, GAUSSIAN_PATHS, Choice, choose, read_fused
from regard.kernels.dot import (
    DotRead,
    PackedRead,
    dot_scores,
    join_groups,
    packed_refusals,
    part_groups,
    read_packed,
    read_plain,
    spread_groups,
)
from regard.kernels.gaussian import GaussianRead, gaussian_scores, multiply_out, scaled
from regard.kernels.read import Read
from regard.kernels.rows import gather_rows, spread_rows
from regard.kernels.softmax import masked_softmax
from regard.kernels.values import can_look

__all__ = [
    "ADDITIVE_PATHS",
    "DOT_PATHS",
    "GAUSSIAN_PATHS",
    "AdditiveRead",
    "Choice",
    "DotRead",
    "GaussianRead",
    "PackedRead",
    "Read",
    "additive_scores",
    "can_look",
    "choose",
    "dot_scores",
    "gather_rows",
    "gaussian_scores",
    "join_groups",
    "masked_softmax",
    "multiply_out",
    "packed_refusals",
    "part_groups",
    "read_fused",
    "read_packed",
    "read_plain",
    "scaled",
    "spread_groups",
    "spread_rows",
]
