"""RNN encoder-decoder: one GRU encodes the source as a vector, another decodes the target from it.

Cho et al. 2014, section 2 and appendix A. https://arxiv.org/abs/1406.1078

    h_t  = GRU(x_t, h_{t-1}),   c = tanh(V h_S)
    s_0  = tanh(V' c),          s_t = GRU([y_{t-1}; c], s_{t-1})
    o_t  = maxout(O_h s_t + O_y y_{t-1} + O_c c),   p(y_t) = softmax(G o_t), G the product of two narrow matrices

The paper uses it to score phrase pairs of a statistical system.

Departs from the paper: the gates are torch's, which reset after the matrix product (the paper's encoder before it), and
c is part of the decoder's input, outside the reset gate, so that the decoder is one `nn.GRU` call under teacher
forcing. Initial weights are torch's.
"""

from dataclasses import dataclass

import torch
from jaxtyping import Float, Int
from torch import Tensor, nn

from regard.contracts import ModelOutput, PaddedTokens, Step
from regard.layers import Maxout, Readout, last_states


@dataclass(frozen=True, kw_only=True)
class RNNEncoderDecoderConfig:
    """Defaults are the published sizes (section 4.1); the output matrix has the rank of the embeddings."""

    source_vocab_size: int = 15_000
    target_vocab_size: int = 15_000
    embedding_size: int = 100
    hidden_size: int = 1000
    maxout_size: int = 500
    dropout: float = 0.0


@dataclass(frozen=True, kw_only=True)
class Encoded:
    """The source vector c."""

    summary: Float[Tensor, "B H"]


class RNNEncoderDecoder(nn.Module):
    """An encoder-decoder whose decoder receives the source vector at every step."""

    def __init__(self, config: RNNEncoderDecoderConfig) -> None:
        super().__init__()
        self.config = config
        word, size = config.embedding_size, config.hidden_size
        self.source_embedding = nn.Embedding(config.source_vocab_size, word)
        self.target_embedding = nn.Embedding(config.target_vocab_size, word)
        self.encoder = nn.GRU(word, size, batch_first=True)
        self.summary_proj = nn.Linear(size, size)
        self.start_proj = nn.Linear(size, size)
        # the source vector joins every input, so teacher forcing is one call of the kernel instead of a loop over steps
        self.decoder = nn.GRU(word + size, size, batch_first=True)
        self.maxout = Maxout(input_size=size + word + size, output_size=config.maxout_size)
        # two narrow matrices in place of one of (maxout, vocab): most parameters would be in that one
        self.narrow = nn.Linear(config.maxout_size, word, bias=False)
        self.dropout = nn.Dropout(config.dropout)
        self.readout = Readout(hidden_size=word, vocab_size=config.target_vocab_size)

    def encode(self, source: PaddedTokens) -> Encoded:
        """Encode the source as one vector."""
        # padding follows the words, so the state at the last word does not depend on it
        states, _ = self.encoder(self.dropout(self.source_embedding(source.ids)))
        return Encoded(summary=torch.tanh(self.summary_proj(last_states(states, source.lengths))))

    def start(self, encoded: Encoded) -> Float[Tensor, "B H"]:
        """The initial decoder state, from the source vector."""
        return torch.tanh(self.start_proj(encoded.summary))

    def step(self, tokens: Int[Tensor, " B"], state: Float[Tensor, "B H"], encoded: Encoded) -> Step:
        """Consume one target token and predict the next."""
        features, state = self._decode(tokens[:, None], state, encoded)
        return Step(logits=self.readout(features[:, 0]), state=state)

    def features(self, source: PaddedTokens, target: PaddedTokens) -> ModelOutput:
        """The input of the output layer at every target position, without a loop in Python."""
        encoded = self.encode(source)
        features, _ = self._decode(target.ids, self.start(encoded), encoded)
        return ModelOutput(features=features)

    def forward(self, source: PaddedTokens, target: PaddedTokens) -> Float[Tensor, "B T vocab"]:
        """Logits for every target position, given the true previous tokens."""
        return self.readout(self.features(source, target).features)

    def _decode(
        self, ids: Int[Tensor, "B T"], state: Float[Tensor, "B H"], encoded: Encoded
    ) -> tuple[Float[Tensor, "B T word"], Float[Tensor, "B H"]]:
        """The input of the output layer after each token, and the state after the last."""
        words = self.dropout(self.target_embedding(ids))
        # the source vector is an input of every step (B, T, H)
        summaries = encoded.summary[:, None].expand(-1, ids.shape[1], -1).to(words.dtype)
        # torch's recurrent layers expect states of (layers, batch, hidden)
        states, last = self.decoder(torch.cat([words, summaries], dim=-1), state[None])
        hidden = self.maxout(torch.cat([states, words, summaries], dim=-1))
        return self.narrow(self.dropout(hidden)), last[0]
