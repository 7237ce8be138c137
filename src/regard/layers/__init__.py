"""The parts that models share and no paper invents twice."""

from regard.layers.cache import FixedCache, GrowingCache, WindowCache
from regard.layers.embedding import Embedding
from regard.layers.feed_forward import FeedForward, GatedFeedForward
from regard.layers.image import ImageSelfAttention
from regard.layers.maxout import Maxout
from regard.layers.readout import Readout
from regard.layers.residual import PostNorm, PreNorm
from regard.layers.task_model import TaskModel
from regard.layers.unroll import Advanced, unroll, unroll_features

__all__ = [
    "Advanced",
    "Embedding",
    "FeedForward",
    "FixedCache",
    "GatedFeedForward",
    "GrowingCache",
    "ImageSelfAttention",
    "Maxout",
    "PostNorm",
    "PreNorm",
    "Readout",
    "TaskModel",
    "WindowCache",
    "unroll",
    "unroll_features",
]
