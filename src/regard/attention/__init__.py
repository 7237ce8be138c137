"""Score, align, aggregate."""

from regard.attention.alignments import ALIGNMENTS
from regard.attention.core import Attention, attend, explain
from regard.attention.masks import MASKS
from regard.attention.scores import SCORES
from regard.attention.trace import AttentionMap, Trace, trace

__all__ = ["ALIGNMENTS", "MASKS", "SCORES", "Attention", "AttentionMap", "Trace", "attend", "explain", "trace"]
