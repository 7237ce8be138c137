"""All of attention in one PyTorch package: score, align, aggregate."""

from regard.attention import Attention, MultiHeadAttention, attend, trace
from regard.contracts import Look
from regard.display import show

__version__ = "0.1.0"

__all__ = ["Attention", "Look", "MultiHeadAttention", "attend", "show", "trace"]
