"""All of attention in one PyTorch package: score, align, aggregate."""

from regard.attention import Attention, MultiHeadAttention, attend, change, trace
from regard.contracts import VERSION, Look
from regard.display import show
from regard.recipes import load

__version__ = VERSION

__all__ = ["Attention", "Look", "MultiHeadAttention", "attend", "change", "load", "show", "trace"]
