"""All of attention in one PyTorch package: score, align, aggregate."""

from regard.attention import Attention, MultiHeadAttention, attend, trace
from regard.display import show

__version__ = "0.1.0"

__all__ = ["Attention", "MultiHeadAttention", "attend", "show", "trace"]
