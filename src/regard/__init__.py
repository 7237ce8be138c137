"""All of attention in one PyTorch package: score, align, aggregate."""

from regard._utils import VERSION
from regard.attention import Attention, MultiHeadAttention, attend, change, trace
from regard.contracts import PositionInfo
from regard.display import show
from regard.tasks import load

__version__ = VERSION

__all__ = ["Attention", "MultiHeadAttention", "PositionInfo", "attend", "change", "load", "show", "trace"]
