"""Modules that models share and that belong to no single paper."""

from regard.layers.convolution import CausalConvolution, Convolved, GatedConvolution, SameConvolution, normalised_linear
from regard.layers.embedding import Embedding, Readout
from regard.layers.feed_forward import FeedForward, GatedFeedForward, Maxout
from regard.layers.image_attention import ImageSelfAttention
from regard.layers.linear_attention import LinearAttention, check_heads, linear_attention
from regard.layers.lstmn import (
    LSTMNAttention,
    LSTMNCell,
    LSTMNMemory,
    LSTMNScore,
    LSTMNStack,
    WindowedMemory,
    WindowedRun,
    advance_window,
    memory_of,
    run_windowed,
    start_windowed,
)
from regard.layers.pooling import ClassifierHead, WordDropout, max_of_words, mean_of_words, random_words
from regard.layers.recurrent import (
    BidirectionalGRU,
    BidirectionalLSTM,
    BidirectionalLSTMStack,
    GRUUpdate,
    LSTMRun,
    LSTMState,
    last_states,
    reverse_rows,
    run_lstm,
)
from regard.layers.residual import NORMS, PostNorm, PreNorm
from regard.layers.task_model import TaskModel
from regard.layers.transformer import CausalLayer, DecoderLayer, EncoderLayer, LayerSizes
from regard.layers.ttt import TTT, BareLinear, GradientLearner, NadarayaWatsonLearner, NormedLinear
from regard.layers.unroll import unroll, unroll_features

__all__ = [
    "NORMS",
    "TTT",
    "BareLinear",
    "BidirectionalGRU",
    "BidirectionalLSTM",
    "BidirectionalLSTMStack",
    "CausalConvolution",
    "CausalLayer",
    "ClassifierHead",
    "Convolved",
    "DecoderLayer",
    "Embedding",
    "EncoderLayer",
    "FeedForward",
    "GRUUpdate",
    "GatedConvolution",
    "GatedFeedForward",
    "GradientLearner",
    "ImageSelfAttention",
    "LSTMNAttention",
    "LSTMNCell",
    "LSTMNMemory",
    "LSTMNScore",
    "LSTMNStack",
    "LSTMRun",
    "LSTMState",
    "LayerSizes",
    "LinearAttention",
    "Maxout",
    "NadarayaWatsonLearner",
    "NormedLinear",
    "PostNorm",
    "PreNorm",
    "Readout",
    "SameConvolution",
    "TaskModel",
    "WindowedMemory",
    "WindowedRun",
    "WordDropout",
    "advance_window",
    "check_heads",
    "last_states",
    "linear_attention",
    "max_of_words",
    "mean_of_words",
    "memory_of",
    "normalised_linear",
    "random_words",
    "reverse_rows",
    "run_lstm",
    "run_windowed",
    "start_windowed",
    "unroll",
    "unroll_features",
]
