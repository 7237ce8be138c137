"""Fused maths; nothing here knows a model."""

from regard.kernels.additive import AdditiveRead, additive_scores
from regard.kernels.choose import ADDITIVE_PATHS, DOT_PATHS, Choice, choose, read_fused
from regard.kernels.dot import DotRead, PackedRead, dot_scores, packed_refusals, read_packed, read_plain, spread_groups
from regard.kernels.gaussian import features_serve, gaussian_features, gaussian_scores
from regard.kernels.rows import gather_rows, spread_rows
from regard.kernels.softmax import masked_softmax
from regard.kernels.values import can_look

__all__ = [
    "ADDITIVE_PATHS",
    "DOT_PATHS",
    "AdditiveRead",
    "Choice",
    "DotRead",
    "PackedRead",
    "additive_scores",
    "can_look",
    "choose",
    "dot_scores",
    "features_serve",
    "gather_rows",
    "gaussian_features",
    "gaussian_scores",
    "masked_softmax",
    "packed_refusals",
    "read_fused",
    "read_packed",
    "read_plain",
    "spread_groups",
    "spread_rows",
]
