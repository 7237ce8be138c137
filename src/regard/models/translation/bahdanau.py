"""RNNsearch: the first translation model that learned where to look.

Bahdanau, Cho and Bengio 2015, section 3 and appendix A. https://arxiv.org/abs/1409.0473
A bidirectional GRU reads the source; before each target word, additive attention asked by the PREVIOUS state picks what
the GRU decoder sees of it.

    h_j  = [forward GRU; backward GRU] at x_j,   s_0 = tanh(W_s backward_1)
    e_ij = v . tanh(W s_{i-1} + U h_j),   a_i = softmax(e_i),   c_i = sum_j a_ij h_j
    s_i  = GRU(y_{i-1}, c_i, s_{i-1})
    t_i  = maxout(U_o s_i + V_o y_{i-1} + C_o c_i),   p(y_i) = softmax(W_o t_i)

The readout sees s_i, as equation 4 of the text has it; the appendix writes s_{i-1}.

Departs from the paper: the encoder's gates are torch's, which reset after the matrix product; the decoder's are the
paper's. Embeddings start at 0.1 where the paper takes 0.01, which Adam, unlike its Adadelta, is slow to grow; what is
not recurrent and compares nothing starts as torch's layers do.
"""

from dataclasses import dataclass
from typing import cast

import torch
from jaxtyping import Float, Int
from torch import Tensor, nn

from regard.attention import Attention
from regard.attention.scores import Additive
from regard.contracts import Memory, ModelOutput, PaddedTokens, Step
from regard.kernels import linear
from regard.kernels.recurrent import AdditiveLook, RepeatedLinear, gru_blend, gru_reset
from regard.layers import (
    Advanced,
    BidirectionalGRU,
    GRUUpdate,
    Maxout,
    Readout,
    Steps,
    going,
    looks_plainly,
    may_fuse,
    unroll_features,
)


@dataclass(frozen=True, kw_only=True)
class BahdanauConfig:
    """Defaults are the published sizes (section A.2.3)."""

    source_vocab_size: int = 30_000
    target_vocab_size: int = 30_000
    embedding_size: int = 620
    hidden_size: int = 1000
    alignment_size: int = 1000
    maxout_size: int = 500
    dropout: float = 0.0


@dataclass(frozen=True, kw_only=True)
class Encoded:
    """What every step looks back at, and the backward state at the first word, which has read the whole source.

    The memory's values are [h_j; C h_j]: what the readout sees of a place, and what the decoder's gates do.
    """

    memory: Memory
    first_backward: Float[Tensor, "B H"]


class Bahdanau(nn.Module):
    """Encoder-decoder whose decoder looks before it moves."""

    def __init__(self, config: BahdanauConfig) -> None:
        super().__init__()
        self.config = config
        word, size = config.embedding_size, config.hidden_size
        self.source_embedding = nn.Embedding(config.source_vocab_size, word)
        self.target_embedding = nn.Embedding(config.target_vocab_size, word)
        self.encoder = BidirectionalGRU(input_size=word, hidden_size=size)
        self.start_proj = nn.Linear(size, size)
        self.attention = Attention(Additive(query_size=size, key_size=2 * size, hidden_size=config.alignment_size))
        self.word_gates = nn.Linear(word, 3 * size)
        self.context_gates = nn.Linear(2 * size, 3 * size, bias=False)
        self.decoder = GRUUpdate(hidden_size=size)
        self.maxout = Maxout(input_size=size + 2 * size + word, output_size=config.maxout_size)
        self.dropout = nn.Dropout(config.dropout)
        self.readout = Readout(hidden_size=config.maxout_size, vocab_size=config.target_vocab_size)
        self.reset_parameters()

    def reset_parameters(self) -> None:
        """Section B.1: recurrent matrices orthogonal, the comparison near 0, biases 0."""
        for name, parameter in self.named_parameters():
            if name.endswith("energy"):
                # the paper's zeros would leave W and U without a gradient at first
                nn.init.normal_(parameter, std=0.01)
            elif parameter.ndim == 1:
                nn.init.zeros_(parameter)
            elif "embedding" in name:
                nn.init.normal_(parameter, std=0.1)
            elif "weight_hh" in name or name.startswith("decoder."):
                for square in parameter.split(self.config.hidden_size):
                    nn.init.orthogonal_(square)
            elif name.startswith("attention."):
                nn.init.normal_(parameter, std=0.001)

    def encode(self, source: PaddedTokens) -> Encoded:
        """Read the source once, both ways; the keys are prepared here."""
        states = self._read(source)
        # a matrix times a weighted sum is the weighted sum of its products: C h_j is computed once, not C c_i each step
        values = torch.cat([states, self.context_gates(states)], dim=-1)
        return Encoded(
            memory=self.attention.prepare_memory(states, values, mask=source.mask),
            first_backward=states[:, 0, self.config.hidden_size :],
        )

    def start(self, encoded: Encoded) -> Float[Tensor, "B H"]:
        """The decoder begins with what the backward layer ended on."""
        return torch.tanh(self.start_proj(encoded.first_backward))

    def advance(self, gates: Float[Tensor, "B gates"], state: Float[Tensor, "B H"], encoded: Encoded) -> Advanced:
        """Look with the state before this word, then move by the word (given as its gates) and what was seen."""
        read = self.attention(state[:, None], encoded.memory, return_weights=True)
        assert read.weights is not None
        context, seen = read.context[:, 0].split([2 * state.shape[1], 3 * state.shape[1]], dim=-1)
        state = self.decoder(gates + seen, state)
        return Advanced(features=torch.cat([state, context], dim=-1), state=state, alignment=read.weights[:, 0])

    def step(self, tokens: Int[Tensor, " B"], state: Float[Tensor, "B H"], encoded: Encoded) -> Step:
        """Read one target token and predict the next."""
        word = self.dropout(self.target_embedding(tokens))
        done = self.advance(self.word_gates(word), state, encoded)
        return Step(logits=self.readout(self._say(done.features, word)), state=done.state, alignment=done.alignment)

    def features(self, source: PaddedTokens, target: PaddedTokens) -> ModelOutput:
        """What the readout sees at every target position; only looking and moving go step by step."""
        layers = (self.word_gates, self.context_gates, self.start_proj, self.decoder.gates, self.decoder.candidate)
        compared = cast(nn.Module, self.attention.score).children()
        if looks_plainly(self.attention, Additive) and may_fuse(self, *layers, *compared):
            steps = Steps.of(target.lengths, target.ids.shape[1])
            words = self.dropout(self.target_embedding(steps.pack(target.ids)))
            return ModelOutput(features=steps.unpack(self._say(self._move(source, words, steps), words)))
        encoded, words = self.encode(source), self.dropout(self.target_embedding(target.ids))
        moved = unroll_features(self.advance, self.word_gates(words), state=self.start(encoded), encoded=encoded)
        return ModelOutput(features=self._say(moved, words))

    def forward(self, source: PaddedTokens, target: PaddedTokens) -> Float[Tensor, "B T vocab"]:
        """Logits for every target position, given the true previous tokens."""
        return self.readout(self.features(source, target).features)

    def _read(self, source: PaddedTokens) -> Float[Tensor, "B source states"]:
        """h_j at every place of the source."""
        return self.encoder(self.dropout(self.source_embedding(source.ids)), source.lengths)

    def _move(self, source: PaddedTokens, words: Float[Tensor, "N word"], steps: Steps) -> Float[Tensor, "N moved"]:
        """What `advance` gives at every position; in the loop is only what needs the state before."""
        score, size, sizes = cast(Additive, self.attention.score), self.config.hidden_size, steps.sizes
        read = self._read(source)
        states = steps.sort(read)
        # W s asks and U s opens the gates: one product
        both = RepeatedLinear(torch.cat([score.query_proj.weight, self.decoder.gates.weight]), sizes=sizes)
        candidate = RepeatedLinear(self.decoder.candidate.weight, sizes=sizes)
        keys, values = (linear(states, layer.weight) for layer in (score.key_proj, self.context_gates))
        look = AdditiveLook(keys, score.energy, values, steps.sort(source.mask), sizes=sizes)
        state = torch.tanh(linear(states[:, 0, size:], self.start_proj.weight, self.start_proj.bias))
        moved, weights = [], []
        for word in linear(words, self.word_gates.weight, self.word_gates.bias).split(sizes):
            state = going(state, len(word))
            query, gates = both(state).split([self.config.alignment_size, 2 * size], dim=-1)
            seen, looked = look(query)
            given, new = (word + seen).split([2 * size, size], dim=-1)
            kept, update = gru_reset(gates + given, state)
            state = gru_blend(candidate(kept, new), update, state)
            moved.append(state)
            weights.append(looked)
        # the readout alone sees the contexts: one product for all steps
        contexts = steps.unpack(torch.cat(weights)).to(read.dtype) @ read
        return torch.cat([torch.cat(moved), steps.pack(contexts)], dim=-1)

    def _say(self, moved: Float[Tensor, "*B moved"], words: Float[Tensor, "*B word"]) -> Float[Tensor, "*B maxout"]:
        """The maxout layer over state, context and word."""
        return self.dropout(self.maxout(torch.cat([moved, words], dim=-1)))
