"""Score, align, aggregate."""

from regard.attention.alignments import ALIGNMENTS
from regard.attention.attention import SCALED_DOT, SOFTMAX, Attention, attend, explain, read
from regard.attention.cache import FixedCache, GrowingCache, Room, WindowCache
from regard.attention.indices import spread_memory
from regard.attention.masks import MASKS
from regard.attention.multi_head import MultiHeadAttention
from regard.attention.positions import POSITIONS
from regard.attention.scores import SCORES
from regard.attention.trace import change, trace

__all__ = [
    "ALIGNMENTS",
    "MASKS",
    "POSITIONS",
    "SCALED_DOT",
    "SCORES",
    "SOFTMAX",
    "Attention",
    "FixedCache",
    "GrowingCache",
    "MultiHeadAttention",
    "Room",
    "WindowCache",
    "attend",
    "change",
    "explain",
    "read",
    "spread_memory",
    "trace",
]
