"""Translation models, in historical order."""

from regard.contracts import ModelEntry, Title
from regard.models.translation.bahdanau import Bahdanau, BahdanauConfig
from regard.models.translation.conv_seq2seq import ConvSeq2Seq, ConvSeq2SeqConfig
from regard.models.translation.lstmn import LSTMN, DeepFusion, DeepLayer, LSTMNConfig, ShallowFusion
from regard.models.translation.luong import LUONG_ALIGNMENTS, LUONG_SCORES, Luong, LuongConfig
from regard.models.translation.rctm import RCTM, RCTMConfig
from regard.models.translation.rnn_encoder_decoder import RNNEncoderDecoder, RNNEncoderDecoderConfig
from regard.models.translation.seq2seq import Seq2Seq, Seq2SeqConfig
from regard.models.translation.transformer import Encoded, State, Transformer, TransformerConfig

TRANSLATION_MODELS = {
    "rctm": ModelEntry(
        build=RCTM,
        config=RCTMConfig,
        year=2013,
        title="RCTM I",
        formula="h_t = sigmoid(I y_{t-1} + R h_{t-1} + S fold(x))",
        paper="https://aclanthology.org/D13-1176",
        attends=False,
        capturable=True,
        variants=({"source_model": "ngrams"}, {"source_model": "none"}, {"activation": "tanh"}),
        summary=Title(
            en="Convolutions encode the source in one vector, from which a recurrent network generates the target.",
            zh="用卷积把源句编码成一个向量，再由循环网络从它生成译文。",
        ),
        parts=Title(
            en="Feature model: convolutions that fold the source into one vector; query and attention model: none, "
            "every step has the same context; output model: a recurrent network.",
            zh="特征模型：把源句折叠成一个向量的卷积；查询模型与注意力模型：没有，每一步的上下文都相同；输出模型：循"
            "环网络。",
        ),
    ),
    "rnn_encoder_decoder": ModelEntry(
        build=RNNEncoderDecoder,
        config=RNNEncoderDecoderConfig,
        year=2014,
        title="RNN encoder-decoder",
        formula="c = tanh(V h_S), s_t = GRU([y_{t-1}; c], s_{t-1})",
        paper="https://arxiv.org/abs/1406.1078",
        attends=False,
        capturable=True,
        summary=Title(
            en="One recurrent network encodes the source in a vector, which is an input of every step of the decoder.",
            zh="一个循环网络把源句编码成一个向量，作为解码器每一步的输入。",
        ),
        parts=Title(
            en="Feature model: a GRU, of which only the last state is used; query and attention model: none, every "
            "step has the same context; output model: a GRU with a maxout layer.",
            zh="特征模型：GRU，只用最后一个状态；查询模型与注意力模型：没有，每一步的上下文都相同；输出模型：GRU 加 "
            "maxout 层。",
        ),
    ),
    "seq2seq": ModelEntry(
        build=Seq2Seq,
        config=Seq2SeqConfig,
        year=2014,
        title="Seq2Seq",
        formula="s_0 = LSTM(x_S .. x_1), s_t = LSTM(y_{t-1}, s_{t-1})",
        paper="https://arxiv.org/abs/1409.3215",
        attends=False,
        capturable=True,
        summary=Title(
            en="Deep LSTMs trained end to end on the reversed source; the source vector is only the initial state.",
            zh="端到端训练的深层 LSTM，源句倒序输入；源句向量只用作解码器的初始状态。",
        ),
        parts=Title(
            en="Feature model: a deep LSTM over the reversed source, of which only the last states are used; query "
            "and attention model: none; output model: a deep LSTM that starts from these states.",
            zh="特征模型：读入倒序源句的深层 LSTM，只用最后的状态；查询模型与注意力模型：没有；输出模型：从这些状态出"
            "发的深层 LSTM。",
        ),
    ),
    "bahdanau": ModelEntry(
        build=Bahdanau,
        config=BahdanauConfig,
        year=2014,
        title="RNNsearch (Bahdanau)",
        formula="c_t = attend(s_{t-1}, h), s_t = GRU(y_{t-1}, c_t, s_{t-1})",
        paper="https://arxiv.org/abs/1409.0473",
        attends=True,
        capturable=True,
        variants=(
            {"score": "general"},
            {"alignment": "sparsemax"},
            {"alignment": "local_monotonic"},
            {"alignment": "monotonic"},
        ),
        summary=Title(
            en="Before every word the decoder attends to all source states and uses their weighted sum.",
            zh="生成每个词之前，解码器关注所有源句状态，并使用它们的加权和。",
        ),
        parts=Title(
            en="Feature model: a bidirectional GRU; query model: the decoder's previous state; attention model: "
            "additive score and softmax; output model: a GRU with a maxout layer.",
            zh="特征模型：双向 GRU；查询模型：解码器的上一状态；注意力模型：加性评分函数与 softmax；输出模型：GRU 加 "
            "maxout 层。",
        ),
    ),
    "luong": ModelEntry(
        build=Luong,
        config=LuongConfig,
        year=2015,
        title="Luong",
        formula="c_t = attend(s_t, h), h~_t = tanh(W_c [c_t; s_t])",
        paper="https://arxiv.org/abs/1508.04025",
        attends=True,
        capturable=True,
        variants=(
            *({"score": score, "alignment": alignment} for score in LUONG_SCORES for alignment in LUONG_ALIGNMENTS),
            {"input_feeding": False},
            {"encoder": "bidirectional"},
            {"alignment": "sparsemax"},
            {"alignment": "monotonic"},
        ),
        summary=Title(
            en="Simpler scores with the current decoder state as query, and local windows as an alternative.",
            zh="用解码器的当前状态作查询，评分函数更简单，也可以只关注局部窗口。",
        ),
        parts=Title(
            en="Feature model: a stacked LSTM; query model: the decoder's current state; attention model: dot, "
            "general, concat or location score, global or local; output model: a tanh layer on context and state.",
            zh="特征模型：多层 LSTM；查询模型：解码器的当前状态；注意力模型：点积、general、拼接或 location 评分函数，"
            "全局或局部；输出模型：作用于上下文与状态的 tanh 层。",
        ),
    ),
    "lstmn": ModelEntry(
        build=LSTMN,
        config=LSTMNConfig,
        year=2016,
        title="LSTMN",
        formula="c_t = r attend(source tape) + f attend(own tape) + i c^_t",
        paper="https://arxiv.org/abs/1601.06733",
        attends=True,
        capturable=True,
        variants=({"fusion": "shallow"}, {"zero_cell": True}, {"alignment": "sparsemax"}),
        summary=Title(
            en="A recurrent network that stores all its past states and attends to them, instead of one state.",
            zh="循环网络保存过去的所有状态并关注它们，而不是只有一个状态。",
        ),
        parts=Title(
            en="Feature model: an LSTMN whose tape has the source states; query model: the current word and the last "
            "summary; attention model: additive score over both tapes; output model: the LSTMN decoder.",
            zh="特征模型：LSTMN，其状态带保存源句状态；查询模型：当前词与上一个汇总状态；注意力模型：作用于两条状态带的"
            "加性评分函数；输出模型：LSTMN 解码器。",
        ),
    ),
    "conv_seq2seq": ModelEntry(
        build=ConvSeq2Seq,
        config=ConvSeq2SeqConfig,
        year=2017,
        title="ConvS2S",
        formula="h = GLU(conv(y)), h + attend(W h + g, z, z + e) in every layer",
        paper="https://arxiv.org/abs/1705.03122",
        attends=True,
        capturable=True,
        variants=({"scaling": "authors"}, {"alignment": "local_monotonic"}),
        summary=Title(
            en="Convolutions instead of recurrence, so positions are trained in parallel; every decoder layer attends.",
            zh="用卷积代替循环，训练时各位置可以并行；解码器每一层都有注意力。",
        ),
        parts=Title(
            en="Feature model: gated convolutions; query model: the state of each decoder layer plus the target "
            "word; attention model: dot score and softmax in every layer; output model: gated convolutions.",
            zh="特征模型：门控卷积；查询模型：解码器各层的状态加目标词；注意力模型：每层都有点积评分函数与 softmax；"
            "输出模型：门控卷积。",
        ),
    ),
    "transformer": ModelEntry(
        build=Transformer,
        config=TransformerConfig,
        year=2017,
        title="Transformer",
        formula="y = norm(y + attend(y, y before)), y = norm(y + attend(y, x)), y = norm(y + FFN(y))",
        paper="https://arxiv.org/abs/1706.03762",
        attends=True,
        capturable=True,
        packs=True,
        variants=(
            {"norm": "pre"},
            {"score": "additive"},
            {"shared_embeddings": False},
            {"alignment": "local_monotonic"},
        ),
        summary=Title(
            en="Attention without recurrence or convolution: any two words are one step apart, in several heads.",
            zh="只用注意力，没有循环和卷积：任意两个词只隔一步，且有多个头。",
        ),
        parts=Title(
            en="Feature model: layers of self-attention over the source; query model: layers of causal "
            "self-attention over the target; attention model: scaled dot score and softmax in several heads; output "
            "model: feed-forward layers and a linear layer.",
            zh="特征模型：源句上的多层自注意力；查询模型：目标句上的多层因果自注意力；注意力模型：多头的缩放点积评分"
            "函数与 softmax；输出模型：前馈层与线性层。",
        ),
    ),
}

__all__ = [
    "LSTMN",
    "LUONG_ALIGNMENTS",
    "LUONG_SCORES",
    "RCTM",
    "TRANSLATION_MODELS",
    "Bahdanau",
    "BahdanauConfig",
    "ConvSeq2Seq",
    "ConvSeq2SeqConfig",
    "DeepFusion",
    "DeepLayer",
    "Encoded",
    "LSTMNConfig",
    "Luong",
    "LuongConfig",
    "RCTMConfig",
    "RNNEncoderDecoder",
    "RNNEncoderDecoderConfig",
    "Seq2Seq",
    "Seq2SeqConfig",
    "ShallowFusion",
    "State",
    "Transformer",
    "TransformerConfig",
]
