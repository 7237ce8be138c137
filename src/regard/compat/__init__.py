"""Drop-ins for classes that others built on: their constructor, keys and masks, our inside."""

from regard.compat.multihead_attention import MultiheadAttention

__all__ = ["MultiheadAttention"]
