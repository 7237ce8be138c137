"""Score, align, aggregate."""

from regard.attention.alignments import ALIGNMENTS
from regard.attention.attention import SCALED_DOT, SOFTMAX, Attention, attend, read, which_backend
from regard.attention.cache import FixedCache, GrowingCache, Room, WindowCache
from regard.attention.indices import pad_memory
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
    "pad_memory",
    "read",
    "trace",
    "which_backend",
]
