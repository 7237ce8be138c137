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
