"""Drop-ins and converters for classes of other libraries."""

from regard.interop.multihead_attention import MultiheadAttention

__all__ = [
    "MultiheadAttention",
]
