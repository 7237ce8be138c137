"""The parts that models share and no paper invents twice."""

from regard.layers.cache import FixedCache, GrowingCache, WindowCache
from regard.layers.convolution import CausalConvolution, Convolved, GatedConvolution, SameConvolution, normalised_linear
from regard.layers.embedding import Embedding
from regard.layers.feed_forward import FeedForward, GatedFeedForward
from regard.layers.image import ImageSelfAttention
from regard.layers.linear_attention import LinearAttention, linear_attention
from regard.layers.maxout import Maxout
from regard.layers.readout import Readout
from regard.layers.recurrent import BidirectionalGRU, GRUUpdate, LSTMRun, LSTMState, last_states, reverse_rows, run_lstm
from regard.layers.residual import PostNorm, PreNorm
from regard.layers.tape import Tape, TapeAttention, TapeCell, TapeStack
from regard.layers.task_model import TaskModel
from regard.layers.ttt import TTT, GradientLearner, NadarayaWatsonLearner
from regard.layers.unroll import Advanced, unroll, unroll_features

__all__ = [
    "TTT",
    "Advanced",
    "BidirectionalGRU",
    "CausalConvolution",
    "Convolved",
    "Embedding",
    "FeedForward",
    "FixedCache",
    "GRUUpdate",
    "GatedConvolution",
    "GatedFeedForward",
    "GradientLearner",
    "GrowingCache",
    "ImageSelfAttention",
    "LSTMRun",
    "LSTMState",
    "LinearAttention",
    "Maxout",
    "NadarayaWatsonLearner",
    "PostNorm",
    "PreNorm",
    "Readout",
    "SameConvolution",
    "Tape",
    "TapeAttention",
    "TapeCell",
    "TapeStack",
    "TaskModel",
    "WindowCache",
    "last_states",
    "linear_attention",
    "normalised_linear",
    "reverse_rows",
    "run_lstm",
    "unroll",
    "unroll_features",
]
