"""Seq2Seq: a deep LSTM encodes the reversed source; its last state is the decoder's first.

Sutskever, Vinyals and Le 2014, section 2. https://arxiv.org/abs/1409.3215

    (h, c) = LSTM over <eos> x_S .. x_1,   all layers
    s_t    = LSTM(y_{t-1}, s_{t-1}),   s_0 = (h, c) layer by layer,   p(y_t) = softmax(W s_t)

The source is reversed, each batch element by its own length, so that its first words are close to their translation.
<eos> is reversed with it and comes first: x_1 is the last input of the encoder, and <bos> follows it where the paper
has one <EOS> between the two sentences.

Departs from the paper: initial weights are torch's, with which Adam converges faster than from the paper's uniform
0.08. Dropout (0 by default) acts on words, between layers and before the output layer.
"""

from dataclasses import dataclass

from jaxtyping import Float, Int
from torch import Tensor, nn

from regard.contracts import ModelOutput, PaddedTokens, Step
from regard.layers import LSTMState, Readout, reverse_rows, run_lstm


@dataclass(frozen=True, kw_only=True)
class Seq2SeqConfig:
    """Defaults are the published sizes (section 3.4)."""

    source_vocab_size: int = 160_000
    target_vocab_size: int = 80_000
    embedding_size: int = 1000
    hidden_size: int = 1000
    num_layers: int = 4
    dropout: float = 0.0


@dataclass(frozen=True, kw_only=True)
class Encoded:
    """The encoder's last state, layer by layer."""

    state: LSTMState


class Seq2Seq(nn.Module):
    """Two stacks of LSTMs; the encoder's last state is the decoder's first."""

    def __init__(self, config: Seq2SeqConfig) -> None:
        super().__init__()
        self.config = config
        self.source_embedding = nn.Embedding(config.source_vocab_size, config.embedding_size)
        self.target_embedding = nn.Embedding(config.target_vocab_size, config.embedding_size)
        size, layers = config.hidden_size, config.num_layers
        # with one layer nn.LSTM has no place for this dropout and warns
        between = config.dropout if layers > 1 else 0.0
        self.encoder = nn.LSTM(config.embedding_size, size, layers, batch_first=True, dropout=between)
        self.decoder = nn.LSTM(config.embedding_size, size, layers, batch_first=True, dropout=between)
        self.dropout = nn.Dropout(config.dropout)
        self.readout = Readout(hidden_size=size, vocab_size=config.target_vocab_size)

    def encode(self, source: PaddedTokens) -> Encoded:
        """Encode the reversed source."""
        # padding stays at the end, so that the LSTM state at the last word does not depend on it
        reversed_ids = reverse_rows(source.ids, source.lengths)
        words = self.dropout(self.source_embedding(reversed_ids))
        return Encoded(state=run_lstm(self.encoder, words, lengths=source.lengths).state)

    def start(self, encoded: Encoded) -> LSTMState:
        """The encoder's last state."""
        # encoder and decoder have the same number of layers and hidden size, so no projection is needed
        return encoded.state

    def step(self, tokens: Int[Tensor, " B"], state: LSTMState, encoded: Encoded) -> Step:
        """Consume one target token and predict the next."""
        run = run_lstm(self.decoder, self.dropout(self.target_embedding(tokens[:, None])), state=state)
        return Step(logits=self.readout(self.dropout(run.outputs[:, 0])), state=run.state)

    def features(self, source: PaddedTokens, target: PaddedTokens) -> ModelOutput:
        """The top layer's output at every target position, without a loop in Python."""
        # the decoder's inputs do not depend on its outputs, so all positions are one call of the LSTM
        words = self.dropout(self.target_embedding(target.ids))
        run = run_lstm(self.decoder, words, state=self.start(self.encode(source)))
        return ModelOutput(features=self.dropout(run.outputs))

    def forward(self, source: PaddedTokens, target: PaddedTokens) -> Float[Tensor, "B T vocab"]:
        """Logits for every target position, given the true previous tokens."""
        return self.readout(self.features(source, target).features)
