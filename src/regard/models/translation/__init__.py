"""Translation models, in historical order."""

from regard.contracts import ModelEntry
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
        variants=({"fusion": "shallow"},),
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
        variants=({"norm": "pre"}, {"score": "additive"}, {"shared_embeddings": False}),
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
