"""Text classifiers, in historical order."""

from regard.contracts import ModelEntry, Title
from regard.models.text_classification.bilstm import BiLSTM, BiLSTMConfig
from regard.models.text_classification.cnn import CNN, CNNConfig
from regard.models.text_classification.lstmn import LSTMNEncoder, LSTMNEncoderConfig
from regard.models.text_classification.structured_self_attention import (
    StructuredSelfAttention,
    StructuredSelfAttentionConfig,
)
from regard.models.text_classification.transformer import TransformerEncoder, TransformerEncoderConfig

TEXT_CLASSIFICATION_MODELS: dict[str, ModelEntry] = {
    "bilstm": ModelEntry(
        build=BiLSTM,
        config=BiLSTMConfig,
        year=2005,
        title="BiLSTM",
        formula="z = max_i [LSTM(x_1 .. x_i); LSTM(x_L .. x_i)]",
        paper="https://doi.org/10.1016/j.neunet.2005.06.042",
        attends=False,
        capturable=True,
        summary=Title(
            en="An LSTM in each direction; each feature is its maximum over all words.",
            zh="两个方向各一个 LSTM，每个特征取它在所有词上的最大值。",
        ),
        parts=Title(
            en="Feature model: an LSTM in each direction; query and attention model: none, the maximum over words "
            "replaces them; output model: a linear layer.",
            zh="特征模型：两个方向各一个 LSTM；查询模型与注意力模型：没有，代之以在各词上取最大值；输出模型：线性层。",
        ),
    ),
    "cnn": ModelEntry(
        build=CNN,
        config=CNNConfig,
        year=2014,
        title="CNN for sentences",
        formula="z = max_i relu(w . x_{i:i+h} + b)",
        paper="https://arxiv.org/abs/1408.5882",
        attends=False,
        capturable=True,
        summary=Title(
            en="Convolution filters over neighbouring words; of each only the maximum over the sentence is used.",
            zh="卷积核作用于相邻的词，每个核只取它在整句上的最大值。",
        ),
        parts=Title(
            en="Feature model: convolution filters; query and attention model: none, the maximum over the sentence "
            "replaces them; output model: a linear layer.",
            zh="特征模型：卷积核；查询模型与注意力模型：没有，代之以在整句上取最大值；输出模型：线性层。",
        ),
    ),
    "lstmn_encoder": ModelEntry(
        build=LSTMNEncoder,
        config=LSTMNEncoderConfig,
        year=2016,
        title="LSTMN encoder",
        formula="c_t = f attend(own tape) + i c^_t, z = mean_t h_t",
        paper="https://arxiv.org/abs/1601.06733",
        attends=False,
        capturable=True,
        variants=({"num_layers": 2},),
        summary=Title(
            en="An LSTM that attends to its past states at every word; the class comes from their mean.",
            zh="在每个词处关注过去状态的 LSTM；由状态的平均得出类别。",
        ),
        parts=Title(
            en="Feature model: the past states of an LSTM on a tape; query model: the current word and the last "
            "summary; attention model: additive score and softmax; output model: a classifier on the mean of the "
            "states.",
            zh="特征模型：保存在状态带上的 LSTM 过去状态；查询模型：当前词与上一个汇总状态；注意力模型：加性评分函数"
            "与 softmax；输出模型：作用于状态平均的分类层。",
        ),
    ),
    "structured_self_attention": ModelEntry(
        build=StructuredSelfAttention,
        config=StructuredSelfAttentionConfig,
        year=2017,
        title="Structured self-attention",
        formula="A = softmax(W_2 tanh(W_1 H^T)), M = A H, ||A A^T - I||_F^2",
        paper="https://arxiv.org/abs/1703.03130",
        attends=True,
        capturable=True,
        summary=Title(
            en="Several rows of attention turn a sentence into a matrix; a penalty discourages overlapping rows.",
            zh="多行注意力把句子变成矩阵；惩罚项抑制各行的重叠。",
        ),
        parts=Title(
            en="Feature model: a bidirectional LSTM; query model: r learned vectors, the same for every sentence; "
            "attention model: additive score and softmax; output model: a classifier on the r contexts.",
            zh="特征模型：双向 LSTM；查询模型：r 个学到的向量，对所有句子相同；注意力模型：加性评分函数与 softmax；输"
            "出模型：作用于 r 个上下文的分类层。",
        ),
    ),
    "transformer_encoder": ModelEntry(
        build=TransformerEncoder,
        config=TransformerEncoderConfig,
        year=2017,
        title="Transformer encoder",
        formula="x = norm(x + attend(x, x)), x = norm(x + FFN(x)), z = mean_i x_i",
        paper="https://arxiv.org/abs/1706.03762",
        attends=False,
        capturable=True,
        variants=({"norm": "pre"},),
        summary=Title(
            en="In each layer every word attends to every other, in both directions; the class comes from their mean.",
            zh="每一层里每个词双向关注所有的词；由它们的平均得出类别。",
        ),
        parts=Title(
            en="Feature model: word and position embeddings and the layers below; query model: every position of "
            "each layer; attention model: scaled dot score and softmax in several heads; output model: a classifier "
            "on the mean of the words.",
            zh="特征模型：词与位置的嵌入，以及下方各层；查询模型：每层的每个位置；注意力模型：多头的缩放点积评分函数"
            "与 softmax；输出模型：作用于各词平均的分类层。",
        ),
    ),
}

__all__ = [
    "CNN",
    "TEXT_CLASSIFICATION_MODELS",
    "BiLSTM",
    "BiLSTMConfig",
    "CNNConfig",
    "LSTMNEncoder",
    "LSTMNEncoderConfig",
    "StructuredSelfAttention",
    "StructuredSelfAttentionConfig",
    "TransformerEncoder",
    "TransformerEncoderConfig",
]
