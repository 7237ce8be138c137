"""Score, align, aggregate."""

from regard.attention.alignments import ALIGNMENTS
from regard.attention.core import Attention, attend, explain
from regard.attention.heads import MultiHeadAttention
from regard.attention.masks import MASKS
from regard.attention.positions import POSITIONS
from regard.attention.scores import SCORES
from regard.attention.trace import AttentionMap, Trace, change, trace

__all__ = [
    "ALIGNMENTS",
    "MASKS",
    "POSITIONS",
    "SCORES",
    "Attention",
    "AttentionMap",
    "MultiHeadAttention",
    "Trace",
    "attend",
    "change",
    "explain",
    "trace",
]
