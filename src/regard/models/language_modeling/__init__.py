"""Language models, in historical order."""

from regard.contracts import ModelEntry, Title
from regard.models.language_modeling.gpt import GPT, GPTConfig, State
from regard.models.language_modeling.key_value_attention import (
    AttentionLanguageConfig,
    AttentionLanguageModel,
    KeyValue,
    KeyValueConfig,
    KeyValuePredict,
    KeyValuePredictConfig,
)
from regard.models.language_modeling.lstm import LSTMLanguageConfig, LSTMLanguageModel
from regard.models.language_modeling.lstmn import LSTMNLanguageConfig, LSTMNLanguageModel
from regard.models.language_modeling.mlp import MLPLanguageConfig, MLPLanguageModel
from regard.models.language_modeling.ngram import NGram, NGramConfig
from regard.models.language_modeling.ngram_rnn import NGramRNN, NGramRNNConfig
from regard.models.language_modeling.ttt import TTTLanguageConfig, TTTLanguageModel

LANGUAGE_MODELS: dict[str, ModelEntry] = {
    "ngram": ModelEntry(
        build=NGram,
        config=NGramConfig,
        year=1995,
        title="n-gram (Kneser-Ney)",
        formula="p(w | h) = (c(h w) - D) / c(h) + weight(h) p(w | h'), h' = h without its first word",
        paper="https://doi.org/10.1109/ICASSP.1995.479394",
        attends=False,
        counts=True,
        summary=Title(
            en="Counts of the words that follow the last few words, interpolated with shorter contexts; no network.",
            zh="统计前几个词之后各词出现的次数，并与更短的上下文插值；不用神经网络。",
        ),
        parts=Title(
            en="Feature model: the last few words themselves; query and attention model: none; output model: tables "
            "of counts.",
            zh="特征模型：最近几个词本身；查询模型与注意力模型：没有；输出模型：计数表。",
        ),
    ),
    "mlp": ModelEntry(
        build=MLPLanguageModel,
        config=MLPLanguageConfig,
        year=2003,
        title="MLP (Bengio)",
        formula="h_t = tanh(d + H [x_{t-n+2}; ..; x_t])",
        paper="https://jmlr.org/papers/v3/bengio03a.html",
        attends=False,
        capturable=True,
        variants=({"direct": True},),
        summary=Title(
            en="Word embeddings of the last few words and one hidden layer predict the next word.",
            zh="用最近几个词的词嵌入和一个隐藏层预测下一个词。",
        ),
        parts=Title(
            en="Feature model: embeddings of the last few words; query and attention model: none, each position has "
            "fixed weights; output model: a hidden layer and softmax.",
            zh="特征模型：最近几个词的词嵌入；查询模型与注意力模型：没有，每个位置的权重是固定的；输出模型：隐藏层与 "
            "softmax。",
        ),
    ),
    "lstm": ModelEntry(
        build=LSTMLanguageModel,
        config=LSTMLanguageConfig,
        year=2014,
        title="LSTM",
        formula="h_t = LSTM(D(x_t), h_{t-1}), D: dropout",
        paper="https://arxiv.org/abs/1409.2329",
        attends=False,
        capturable=True,
        variants=({"tied": True},),
        summary=Title(
            en="The text so far is encoded in a state of fixed size; gates control what is stored and erased.",
            zh="已处理的文本编码在大小固定的状态里，由门控制保存与清除的内容。",
        ),
        parts=Title(
            en="Feature model: an LSTM, of which only the current state is used; query and attention model: none; "
            "output model: a linear layer.",
            zh="特征模型：LSTM，只用当前状态；查询模型与注意力模型：没有；输出模型：线性层。",
        ),
    ),
    "lstmn": ModelEntry(
        build=LSTMNLanguageModel,
        config=LSTMNLanguageConfig,
        year=2016,
        title="LSTMN",
        formula="h_t, c_t = LSTM(x_t, attend(h_1 .. h_{t-1}), attend(c_1 .. c_{t-1}))",
        paper="https://arxiv.org/abs/1601.06733",
        attends=True,
        capturable=True,
        summary=Title(
            en="An LSTM that stores its past states separately and attends to them at every word.",
            zh="逐个保存过去状态的 LSTM，在每个词处关注这些状态。",
        ),
        parts=Title(
            en="Feature model: the past states of an LSTM on a tape; query model: the current word and the last "
            "summary; attention model: additive score and softmax; output model: the LSTM's gates and a linear layer.",
            zh="特征模型：保存在状态带上的 LSTM 过去状态；查询模型：当前词与上一个汇总状态；注意力模型：加性评分函数"
            "与 softmax；输出模型：LSTM 的门与线性层。",
        ),
    ),
    "attention": ModelEntry(
        build=AttentionLanguageModel,
        config=AttentionLanguageConfig,
        year=2017,
        title="Attention",
        formula="h*_t = tanh(W_r attend(h_t, h_{t-L} .. h_{t-1}) + W_x h_t)",
        paper="https://arxiv.org/abs/1702.04521",
        attends=True,
        capturable=True,
        summary=Title(
            en="An LSTM that attends to its last outputs; one vector is key, value and basis of the prediction.",
            zh="关注自己最近输出的 LSTM；同一个向量既是键、又是值，还用来预测。",
        ),
        parts=Title(
            en="Feature model: the last outputs of an LSTM; query model: its current output; attention model: "
            "additive score and softmax; output model: a tanh layer on context and output.",
            zh="特征模型：LSTM 最近的若干输出；查询模型：当前输出；注意力模型：加性评分函数与 softmax；输出模型：作"
            "用于上下文与输出的 tanh 层。",
        ),
    ),
    "key_value": ModelEntry(
        build=KeyValue,
        config=KeyValueConfig,
        year=2017,
        title="Key-Value",
        formula="[k_t; v_t] = h_t, h*_t = tanh(W_r attend(k_t, K, V) + W_x v_t)",
        paper="https://arxiv.org/abs/1702.04521",
        attends=True,
        capturable=True,
        summary=Title(
            en="The output is split in two: a key for comparison, and a value that is also used for the prediction.",
            zh="把输出一分为二：一半作键用于比较，另一半作值，也用于预测。",
        ),
        parts=Title(
            en="Feature model: the last outputs of an LSTM, half keys and half values; query model: the key half of "
            "the current output; attention model: additive score and softmax; output model: a tanh layer on context "
            "and value half.",
            zh="特征模型：LSTM 最近的输出，一半作键、一半作值；查询模型：当前输出的键部分；注意力模型：加性评分函数与"
            " softmax；输出模型：作用于上下文与值部分的 tanh 层。",
        ),
    ),
    "key_value_predict": ModelEntry(
        build=KeyValuePredict,
        config=KeyValuePredictConfig,
        year=2017,
        title="Key-Value-Predict",
        formula="[k_t; v_t; p_t] = h_t, h*_t = tanh(W_r attend(k_t, K, V) + W_x p_t)",
        paper="https://arxiv.org/abs/1702.04521",
        attends=True,
        capturable=True,
        summary=Title(
            en="The output is split in three: a key, a value, and a part for the prediction only.",
            zh="把输出一分为三：键、值，以及专门用于预测的部分。",
        ),
        parts=Title(
            en="Feature model: the last outputs of an LSTM, split into key, value and prediction; query model: the "
            "key part of the current output; attention model: additive score and softmax; output model: a tanh layer "
            "on context and prediction part.",
            zh="特征模型：LSTM 最近的输出，分成键、值与预测三部分；查询模型：当前输出的键部分；注意力模型：加性评分函"
            "数与 softmax；输出模型：作用于上下文与预测部分的 tanh 层。",
        ),
    ),
    "ngram_rnn": ModelEntry(
        build=NGramRNN,
        config=NGramRNNConfig,
        year=2017,
        title="N-gram RNN",
        formula="h*_t = tanh(W [h_t^1; h_{t-1}^2; ..; h_{t-N+2}^{N-1}])",
        paper="https://arxiv.org/abs/1702.04521",
        attends=False,
        capturable=True,
        summary=Title(
            en="Parts of the last few outputs are concatenated, without attention; nearly as good as attention.",
            zh="把最近几个输出的各一部分拼接起来，不用注意力，效果与注意力接近。",
        ),
        parts=Title(
            en="Feature model: parts of the last outputs of an LSTM; query and attention model: none, each offset "
            "has fixed weights; output model: a tanh layer on their concatenation.",
            zh="特征模型：LSTM 最近几个输出的各一部分；查询模型与注意力模型：没有，每个偏移的权重是固定的；输出模型："
            "作用于拼接结果的 tanh 层。",
        ),
    ),
    "gpt": ModelEntry(
        build=GPT,
        config=GPTConfig,
        year=2019,
        title="GPT-2",
        formula="x = x + attend(norm(x), x before), x = x + FFN(norm(x))",
        paper="https://cdn.openai.com/better-language-models/language_models_are_unsupervised_multitask_learners.pdf",
        attends=True,
        capturable=True,
        variants=({"positions": "sinusoidal"}, {"positions": "rotary"}, {"positions": "alibi"}),
        summary=Title(
            en="The decoder of the Transformer alone, with the norm first in each layer, as in GPT-2 (last in GPT, "
            "2018); keys and values of the past are cached.",
            zh="只用 Transformer 的解码器，层归一化在每层开头，与 GPT-2 相同（2018 年的 GPT 在末尾）；"
            "缓存过去的键和值。",
        ),
        parts=Title(
            en="Feature model: word and position embeddings and the layers below; query model: the current position "
            "of each layer; attention model: scaled dot score and softmax over the past, in several heads; output "
            "model: feed-forward layers and the tied embedding.",
            zh="特征模型：词与位置的嵌入，以及下方各层；查询模型：每层的当前位置；注意力模型：多头的缩放点积评分函数"
            "与 softmax，只看过去；输出模型：前馈层与共享的嵌入表。",
        ),
    ),
    "ttt": ModelEntry(
        build=TTTLanguageModel,
        config=TTTLanguageConfig,
        year=2024,
        title="TTT-Linear",
        formula="W_t = W_{t-1} - eta_t grad ||f(W_K x_t; W) - W_V x_t||^2, output f(W_Q x_t; W_t)",
        paper="https://arxiv.org/abs/2407.04620",
        attends=False,
        capturable=True,
        variants=({"inner": "bare"},),
        summary=Title(
            en="The state is a small model, trained by gradient steps on the text as it is processed.",
            zh="状态本身是一个小模型，处理文本时用梯度步继续训练它。",
        ),
        parts=Title(
            en="Feature model: keys and values of every word; query model: a projection of the current word; "
            "attention model: none, a small model that is trained on the pairs answers instead; output model: "
            "feed-forward layers and a linear layer.",
            zh="特征模型：每个词的键与值；查询模型：当前词的投影；注意力模型：没有，改由一个用这些键值对训练的小模型"
            "给出结果；输出模型：前馈层与线性层。",
        ),
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
    "State",
    "TTTLanguageConfig",
    "TTTLanguageModel",
]
