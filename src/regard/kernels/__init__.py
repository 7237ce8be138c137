"""Fused computations of attention and related operations. Nothing here depends on a model."""

from regard.kernels.autograd import LOOP, differentiable_once, is_concrete, is_mapped, is_tracing
from regard.kernels.dispatch import ADDITIVE_PATHS, DOT_PATHS, BackendChoice, attend_fused, choose
from regard.kernels.packing import pack_padded, pad_packed
from regard.kernels.product import product
from regard.kernels.request import AttentionRequest
from regard.kernels.softmax import masked_softmax

__all__ = [
    "ADDITIVE_PATHS",
    "DOT_PATHS",
    "LOOP",
    "AttentionRequest",
    "BackendChoice",
    "attend_fused",
    "choose",
    "differentiable_once",
    "is_concrete",
    "is_mapped",
    "is_tracing",
    "masked_softmax",
    "pack_padded",
    "pad_packed",
    "product",
]
