"""Attention: score, align, aggregate. Scores, alignments, masks and position schemes are objects of subpackages."""

from regard.attention.alignments import ALIGNMENTS
from regard.attention.attention import SCALED_DOT, SOFTMAX, Attention, attend, which_backend
from regard.attention.cache import FixedCache, GrowingCache, PreallocatedCache, WindowCache
from regard.attention.head_sizes import HeadSizes
from regard.attention.indices import pad_memory
from regard.attention.masks import MASKS
from regard.attention.multi_head import MultiHeadAttention
from regard.attention.named import make_alignment, make_score
from regard.attention.positions import POSITIONS
from regard.attention.prepared import attend_prepared
from regard.attention.scores import SCORES
from regard.attention.trace import intervene, trace

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
    "HeadSizes",
    "MultiHeadAttention",
    "PreallocatedCache",
    "WindowCache",
    "attend",
    "attend_prepared",
    "intervene",
    "make_alignment",
    "make_score",
    "pad_memory",
    "trace",
    "which_backend",
]
