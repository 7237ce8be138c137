"""RNNsearch: translation with an attention that is learned together with it.

Bahdanau, Cho and Bengio 2015, section 3 and appendix A. https://arxiv.org/abs/1409.0473
A bidirectional GRU encodes the source. Before each target word the PREVIOUS decoder state is the query of additive
attention to it, and the context is an input of the GRU decoder.

    h_j  = [forward GRU; backward GRU] at x_j,   s_0 = tanh(W_s backward_1)
    e_ij = v . tanh(W s_{i-1} + U h_j),   a_i = softmax(e_i),   c_i = sum_j a_ij h_j
    s_i  = GRU(y_{i-1}, c_i, s_{i-1})
    t_i  = maxout(U_o s_i + V_o y_{i-1} + C_o c_i),   p(y_i) = softmax(W_o t_i)

The readout reads s_i, as in equation 4 of the text; the appendix writes s_{i-1}.

Departs from the paper: the encoder's gates are torch's, which reset after the matrix product; the decoder's are the
paper's. Embeddings start with a standard deviation of 0.1 in place of 0.01, because Adam, unlike the paper's Adadelta,
is slow to enlarge them. Layers that are neither recurrent nor part of the attention start as torch's do. Dropout acts
on words and on the maxout layer. `score` and `alignment` select others.

Shapes: B batch, T target positions, H hidden units.
"""

from dataclasses import dataclass

import torch
from jaxtyping import Float, Int
from torch import Tensor, nn

from regard.attention import Attention, make_alignment, make_score, needs_previous_weights
from regard.contracts import Memory, ModelOutput, PaddedTokens, PositionInfo, Step
from regard.layers import BidirectionalGRU, GRUUpdate, Maxout, Readout, unroll_features


@dataclass(frozen=True, kw_only=True)
class BahdanauConfig:
    """Defaults are the published sizes (section A.2.3)."""

    source_vocab_size: int = 30_000
    target_vocab_size: int = 30_000
    embedding_size: int = 620
    hidden_size: int = 1000
    alignment_size: int = 1000
    maxout_size: int = 500
    score: str = "additive"
    alignment: str = "softmax"
    dropout: float = 0.0


@dataclass(frozen=True, kw_only=True)
class Encoded:
    """The memory that every step attends to, and the backward state at the first word, which has read the whole source.

    The memory's values are [h_j; C h_j]: the inputs of the readout and of the decoder's gates.
    """

    memory: Memory
    first_backward: Float[Tensor, "B H"]


@dataclass(frozen=True, kw_only=True)
class State:
    """The decoder's state, the number of tokens that were read, and the last weights if the alignment needs them."""

    hidden: Float[Tensor, "B H"]
    length: int = 0
    weights: Float[Tensor, "B S"] | None = None


class Bahdanau(nn.Module):
    """Encoder-decoder whose decoder attends to the source before it updates its state."""

    def __init__(self, config: BahdanauConfig) -> None:
        super().__init__()
        self.config = config
        word, size = config.embedding_size, config.hidden_size
        self.source_embedding = nn.Embedding(config.source_vocab_size, word)
        self.target_embedding = nn.Embedding(config.target_vocab_size, word)
        self.encoder = BidirectionalGRU(input_size=word, hidden_size=size)
        self.start_proj = nn.Linear(size, size)
        self.attention = Attention(
            make_score(config.score, query_size=size, key_size=2 * size, hidden_size=config.alignment_size),
            make_alignment(config.alignment, query_size=size, hidden_size=config.alignment_size, carries_weights=True),
        )
        # the word's share of the gates has their bias, the context's share has none
        self.word_gates = nn.Linear(word, 3 * size)
        self.context_gates = nn.Linear(2 * size, 3 * size, bias=False)
        self.decoder = GRUUpdate(hidden_size=size)
        # inputs of the maxout layer: state H, context 2 H, word
        self.maxout = Maxout(input_size=size + 2 * size + word, output_size=config.maxout_size)
        self.dropout = nn.Dropout(config.dropout)
        self.readout = Readout(hidden_size=config.maxout_size, vocab_size=config.target_vocab_size)
        self.reset_parameters()

    @property
    def context_sizes(self) -> dict[str, int]:
        """Size of the paper's context by module path: the values [h_j; C h_j] begin with h_j."""
        return {"attention": 2 * self.config.hidden_size}

    def reset_parameters(self) -> None:
        """Section B.1: recurrent matrices orthogonal, the attention near 0, biases 0."""
        # the order of the cases matters: v is one-dimensional too, in scores and in local alignments, but is not a bias
        for name, parameter in self.named_parameters():
            if name.endswith(("energy", "place")):
                # the paper's zeros would leave W and U without a gradient at first
                nn.init.normal_(parameter, std=0.01)
            elif parameter.ndim < 2:
                nn.init.zeros_(parameter)
            elif "embedding" in name:
                nn.init.normal_(parameter, std=0.1)
            elif "weight_hh" in name or name.startswith("decoder."):
                # gates are stacked in one matrix, and each square part is orthogonal on its own
                for square in parameter.split(self.config.hidden_size):
                    nn.init.orthogonal_(square)
            elif name.startswith("attention."):
                nn.init.normal_(parameter, std=0.001)

    def encode(self, source: PaddedTokens) -> Encoded:
        """Encode the source in both directions and prepare the keys."""
        states = self.encoder(self.dropout(self.source_embedding(source.ids)), source.lengths)
        # a matrix times a weighted sum is the weighted sum of the products: C h_j is computed once, not C c_i each step
        values = torch.cat([states, self.context_gates(states)], dim=-1)
        return Encoded(
            memory=self.attention.prepare_memory(states, values, mask=source.mask),
            # [forward; backward]: the second half at position 0 has processed the source from its end
            first_backward=states[:, 0, self.config.hidden_size :],
        )

    def start(self, encoded: Encoded) -> State:
        """The decoder's first state, from the last state of the backward GRU."""
        return State(hidden=torch.tanh(self.start_proj(encoded.first_backward)))

    def advance(self, gates: Float[Tensor, "B gates"], state: State, encoded: Encoded) -> ModelOutput:
        """Attend with the state before this word, then update it; `gates` is the word's share of the gates."""
        hidden, size = state.hidden, self.config.hidden_size
        # filled on the device: a tensor of a Python list is copied from the host, which a CUDA graph rejects
        position_info = PositionInfo(
            positions=torch.full((1,), state.length, device=hidden.device), previous_weights=state.weights
        )
        attended = self.attention(hidden[:, None], encoded.memory, position_info=position_info, return_weights=True)
        assert attended.weights is not None
        weights = attended.weights[:, 0]
        # the values are [h_j; C h_j], so the weighted sum is [c_i; C c_i]
        context, context_gates = attended.context[:, 0].split([2 * size, 3 * size], dim=-1)
        hidden = self.decoder(gates + context_gates, hidden)
        # the state after this word: the readout gets s_i, attention had s_{i-1}
        return ModelOutput(
            features=torch.cat([hidden, context], dim=-1),
            state=State(
                hidden=hidden,
                length=state.length + 1,
                weights=weights if needs_previous_weights(self.attention.align) else None,
            ),
            weights=weights,
        )

    def step(self, tokens: Int[Tensor, " B"], state: State, encoded: Encoded) -> Step:
        """Read one target token and predict the next."""
        word = self.dropout(self.target_embedding(tokens))
        advanced = self.advance(self.word_gates(word), state, encoded)
        logits = self.readout(self.maxout_features(advanced.features, word))
        return Step(logits=logits, state=advanced.state, weights=advanced.weights)

    def features(self, source: PaddedTokens, target: PaddedTokens) -> ModelOutput:
        """Inputs of the readout at every target position; attention and state updates run step by step."""
        encoded, words = self.encode(source), self.dropout(self.target_embedding(target.ids))
        # the gates of all words are one matrix product before the loop
        states = unroll_features(self.advance, self.word_gates(words), state=self.start(encoded), encoded=encoded)
        return ModelOutput(features=self.maxout_features(states, words))

    def forward(self, source: PaddedTokens, target: PaddedTokens) -> Float[Tensor, "B T vocab"]:
        """Logits for every target position, given the true previous tokens."""
        return self.readout(self.features(source, target).features)

    def maxout_features(
        self, states: Float[Tensor, "*B states"], words: Float[Tensor, "*B word"]
    ) -> Float[Tensor, "*B maxout"]:
        """The maxout layer over [s_i; c_i] and the word."""
        return self.dropout(self.maxout(torch.cat([states, words], dim=-1)))
