"""Interoperation with other libraries: drop-in classes and converters."""

from regard.interop.multihead_attention import MultiheadAttention

__all__ = [
    "MultiheadAttention",
]
