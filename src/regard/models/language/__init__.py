"""Systems that read a text and say what comes next, in history order."""

from regard.models.entry import ModelEntry
from regard.models.language.attention import (
    AttentionLanguageConfig,
    AttentionLanguageModel,
    KeyValue,
    KeyValueConfig,
    KeyValuePredict,
    KeyValuePredictConfig,
)
from regard.models.language.gpt import GPT, GPTConfig
from regard.models.language.lstm import LSTMLanguageConfig, LSTMLanguageModel
from regard.models.language.lstmn import LSTMNLanguageConfig, LSTMNLanguageModel
from regard.models.language.mlp import MLPLanguageConfig, MLPLanguageModel
from regard.models.language.ngram import NGram, NGramConfig
from regard.models.language.ngram_rnn import NGramRNN, NGramRNNConfig
from regard.models.language.ttt import TTTLanguageConfig, TTTLanguageModel

LANGUAGE_MODELS: dict[str, ModelEntry] = {
    "ngram": ModelEntry(
        build=NGram,
        config=NGramConfig,
        year=1995,
        title="n-gram (Kneser-Ney)",
        formula="p(w | h) = (c(h w) - D) / c(h) + weight(h) p(w | h'), h' = h without its first word",
        paper="https://aclanthology.org/P96-1041",
        attends=False,
        counts=True,
    ),
    "mlp": ModelEntry(
        build=MLPLanguageModel,
        config=MLPLanguageConfig,
        year=2003,
        title="MLP (Bengio)",
        formula="h_t = tanh(d + H [x_{t-n+2}; ..; x_t])",
        paper="https://jmlr.org/papers/v3/bengio03a.html",
        attends=False,
        variants=({"direct": True},),
    ),
    "lstm": ModelEntry(
        build=LSTMLanguageModel,
        config=LSTMLanguageConfig,
        year=2014,
        title="LSTM",
        formula="h_t = LSTM(D(x_t), h_{t-1}), D: dropout",
        paper="https://arxiv.org/abs/1409.2329",
        attends=False,
        variants=({"tied": True},),
    ),
    "lstmn": ModelEntry(
        build=LSTMNLanguageModel,
        config=LSTMNLanguageConfig,
        year=2016,
        title="LSTMN",
        formula="h_t, c_t = LSTM(x_t, attend(h_1 .. h_{t-1}), attend(c_1 .. c_{t-1}))",
        paper="https://arxiv.org/abs/1601.06733",
        attends=True,
    ),
    "attention": ModelEntry(
        build=AttentionLanguageModel,
        config=AttentionLanguageConfig,
        year=2017,
        title="Attention",
        formula="h*_t = tanh(W_r attend(h_t, h_{t-L} .. h_{t-1}) + W_x h_t)",
        paper="https://arxiv.org/abs/1702.04521",
        attends=True,
    ),
    "key_value": ModelEntry(
        build=KeyValue,
        config=KeyValueConfig,
        year=2017,
        title="Key-Value",
        formula="[k_t; v_t] = h_t, h*_t = tanh(W_r attend(k_t, K, V) + W_x v_t)",
        paper="https://arxiv.org/abs/1702.04521",
        attends=True,
    ),
    "key_value_predict": ModelEntry(
        build=KeyValuePredict,
        config=KeyValuePredictConfig,
        year=2017,
        title="Key-Value-Predict",
        formula="[k_t; v_t; p_t] = h_t, h*_t = tanh(W_r attend(k_t, K, V) + W_x p_t)",
        paper="https://arxiv.org/abs/1702.04521",
        attends=True,
    ),
    "ngram_rnn": ModelEntry(
        build=NGramRNN,
        config=NGramRNNConfig,
        year=2017,
        title="N-gram RNN",
        formula="h*_t = tanh(W [h_t^1; h_{t-1}^2; ..; h_{t-N+2}^{N-1}])",
        paper="https://arxiv.org/abs/1702.04521",
        attends=False,
    ),
    "gpt": ModelEntry(
        build=GPT,
        config=GPTConfig,
        year=2018,
        title="GPT",
        formula="x = x + attend(norm(x), x before), x = x + FFN(norm(x))",
        paper="https://cdn.openai.com/research-covers/language-unsupervised/language_understanding_paper.pdf",
        attends=True,
        variants=({"positions": "sinusoidal"}, {"positions": "rotary"}, {"positions": "alibi"}),
    ),
    "ttt": ModelEntry(
        build=TTTLanguageModel,
        config=TTTLanguageConfig,
        year=2024,
        title="TTT-Linear",
        formula="W_t = W_{t-1} - eta_t grad ||f(W_K x_t; W) - W_V x_t||^2, output f(W_Q x_t; W_t)",
        paper="https://arxiv.org/abs/2407.04620",
        attends=False,
        variants=({"inner": "bare"},),
    ),
}

__all__ = [
    "GPT",
    "LANGUAGE_MODELS",
    "AttentionLanguageConfig",
    "AttentionLanguageModel",
    "GPTConfig",
    "KeyValue",
    "KeyValueConfig",
    "KeyValuePredict",
    "KeyValuePredictConfig",
    "LSTMLanguageConfig",
    "LSTMLanguageModel",
    "LSTMNLanguageConfig",
    "LSTMNLanguageModel",
    "MLPLanguageConfig",
    "MLPLanguageModel",
    "NGram",
    "NGramConfig",
    "NGramRNN",
    "NGramRNNConfig",
    "TTTLanguageConfig",
    "TTTLanguageModel",
]
