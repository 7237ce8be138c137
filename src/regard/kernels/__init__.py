"""Fused maths; nothing here knows a model."""

from regard.kernels.autograd import LOOP, can_look, differentiable_once, is_plain_here
from regard.kernels.dispatch import ADDITIVE_PATHS, DOT_PATHS, GAUSSIAN_PATHS, Choice, choose, read_fused
from regard.kernels.packing import gather_rows, spread_rows
from regard.kernels.product import linear
from regard.kernels.request import Read
from regard.kernels.softmax import masked_softmax

__all__ = [
    "ADDITIVE_PATHS",
    "DOT_PATHS",
    "GAUSSIAN_PATHS",
    "LOOP",
    "Choice",
    "Read",
    "can_look",
    "choose",
    "differentiable_once",
    "gather_rows",
    "is_plain_here",
    "linear",
    "masked_softmax",
    "read_fused",
    "spread_rows",
]
