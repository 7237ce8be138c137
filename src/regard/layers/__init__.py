"""Modules that several models share."""

from regard.layers.bidirectional_lstm import BidirectionalLSTM
from regard.layers.convolution import CausalConvolution, Convolved, GatedConvolution, SameConvolution, normalised_linear
from regard.layers.embedding import Embedding, Readout
from regard.layers.feed_forward import FeedForward, GatedFeedForward
from regard.layers.image_attention import ImageSelfAttention
from regard.layers.linear_attention import LinearAttention, check_heads, linear_attention
from regard.layers.maxout import Maxout
from regard.layers.pooling import ClassifierHead, WordDropout, max_of_words, mean_of_words, random_words, widened
from regard.layers.recurrent import BidirectionalGRU, GRUUpdate, LSTMRun, LSTMState, last_states, reverse_rows, run_lstm
from regard.layers.residual import NORMS, PostNorm, PreNorm
from regard.layers.rolling import RollingTape, roll, start_rolling
from regard.layers.steps import Steps, going
from regard.layers.tape import Tape, TapeAttention, TapeCell, TapeLoop, TapeScore, TapeStack
from regard.layers.task_model import TaskModel
from regard.layers.transformer import CausalLayer, DecoderLayer, EncoderLayer, LayerSizes
from regard.layers.ttt import TTT, BareLinear, GradientLearner, NadarayaWatsonLearner, NormedLinear
from regard.layers.unroll import Advanced, looks_plainly, may_fuse, unroll, unroll_features

__all__ = [
    "NORMS",
    "TTT",
    "Advanced",
    "BareLinear",
    "BidirectionalGRU",
    "BidirectionalLSTM",
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
    "RollingTape",
    "SameConvolution",
    "Steps",
    "Tape",
    "TapeAttention",
    "TapeCell",
    "TapeLoop",
    "TapeScore",
    "TapeStack",
    "TaskModel",
    "WordDropout",
    "check_heads",
    "going",
    "last_states",
    "linear_attention",
    "looks_plainly",
    "max_of_words",
    "may_fuse",
    "mean_of_words",
    "normalised_linear",
    "random_words",
    "reverse_rows",
    "roll",
    "run_lstm",
    "start_rolling",
    "unroll",
    "unroll_features",
    "widened",
]
