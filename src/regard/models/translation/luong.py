"""Luong: global and local attention, with the current state of the decoder as the query.

    s_t = LSTM(s_{t-1}, [y_{t-1}; h~_{t-1}]),   a_t = align(score(s_t, h)),   c_t = sum_j a_tj h_j
    h~_t = tanh(W_c [c_t; s_t]),   p(y_t) = softmax(W h~_t)

Luong, Pham and Manning 2015. https://arxiv.org/abs/1508.04025
Stacked LSTMs on both sides; the encoder's last states start the decoder. Scores dot, general, concat and location
(section 3.1); alignments global, local_monotonic and local_predictive (section 3.2). With `input_feeding`, h~ is an
input of the next step (section 3.3). The source is encoded backwards, beginning with its end mark, as in all of the
paper's better systems; its states are put back in the order of the sentence, to which local alignments refer. Weights
start uniform within 0.1.

Departs from the paper: dropout also acts on h~, both as an input of the readout and of the next step. The decoder
starts with h~_0 = 0. The source's end mark is a position that may be attended to. `encoder` "bidirectional" reads the
source both ways in every layer, half of the units each way. Any other score or alignment may be named too.

Shapes: B batch, T target positions, H hidden units.
"""

from collections.abc import Callable
from dataclasses import dataclass
from typing import Any

import torch
from jaxtyping import Float, Int, Shaped
from torch import Tensor, nn

from regard._utils import find_variant
from regard.attention import ALIGNMENTS, Attention, make_alignment, make_score, needs_previous_weights
from regard.contracts import Memory, ModelOutput, PaddedTokens, PositionInfo, Step
from regard.layers import BidirectionalLSTMStack, LSTMRun, Readout, reverse_rows, run_lstm, unroll_features


@dataclass(frozen=True, kw_only=True)
class LuongConfig:
    """Defaults are the published sizes (section 4.1). `window` is the paper's D; `max_length` is for location alone."""

    source_vocab_size: int = 50_000
    target_vocab_size: int = 50_000
    embedding_size: int = 1000
    hidden_size: int = 1000
    num_layers: int = 4
    score: str = "general"
    alignment: str = "global"
    encoder: str = "backward"
    window: int = 10
    max_length: int = 100
    input_feeding: bool = True
    dropout: float = 0.2


LUONG_SCORES = ("dot", "general", "concat", "location")
LUONG_ALIGNMENTS = ("global", "local_monotonic", "local_predictive")
"""The paper's own."""
TABLE_NAMES = {"global": "softmax", **{name: name for name in ALIGNMENTS}}
"""The names in the table of alignments; the paper's global alignment is its softmax."""


@dataclass(frozen=True, kw_only=True)
class Encoding:
    """How a source is read: the layers, the order of its words for them and of their states, and a run over words."""

    build: Callable[[int, int, int, float], nn.Module]
    order: Callable[[Shaped[Tensor, "B S *size"], Int[Tensor, " B"]], Shaped[Tensor, "B S *size"]]
    run: Callable[[Any, Float[Tensor, "B S word"], Int[Tensor, " B"]], LSTMRun]


ENCODERS = {
    # the paper's: only the real words are reversed, and the last states are those after each source's own length
    "backward": Encoding(
        build=lambda word, size, layers, dropout: nn.LSTM(word, size, layers, batch_first=True, dropout=dropout),
        order=reverse_rows,
        run=lambda encoder, words, lengths: run_lstm(encoder, words, lengths=lengths),
    ),
    "bidirectional": Encoding(
        build=BidirectionalLSTMStack,
        order=lambda rows, lengths: rows,
        run=lambda encoder, words, lengths: encoder(words, lengths),
    ),
}


@dataclass(frozen=True, kw_only=True)
class Encoded:
    """The top layer's states as a memory, in the sentence's order, and each layer's last state and cell."""

    memory: Memory
    lengths: Int[Tensor, " B"]
    hidden: tuple[Float[Tensor, "B H"], ...]
    cells: tuple[Float[Tensor, "B H"], ...]


@dataclass(frozen=True, kw_only=True)
class State:
    """Each layer's state and cell, the last h~, the number of tokens that were read, and the last weights if needed."""

    hidden: tuple[Float[Tensor, "B H"], ...]
    cells: tuple[Float[Tensor, "B H"], ...]
    attended: Float[Tensor, "B H"]
    length: int = 0
    weights: Float[Tensor, "B S"] | None = None


class Luong(nn.Module):
    """Encoder-decoder whose decoder attends to the source after it has updated its state."""

    def __init__(self, config: LuongConfig) -> None:
        super().__init__()
        self.config = config
        size, layers = config.hidden_size, config.num_layers
        self.source_embedding = nn.Embedding(config.source_vocab_size, config.embedding_size)
        self.target_embedding = nn.Embedding(config.target_vocab_size, config.embedding_size)
        # with one layer nn.LSTM has no place for this dropout and warns
        between = config.dropout if layers > 1 else 0.0
        encoding = find_variant(config.encoder, ENCODERS, "encoder")
        self.encoder = encoding.build(config.embedding_size, size, layers, between)
        # the word's share of the first layer, for all positions at once; the rest is computed step by step
        self.word_gates = nn.Linear(config.embedding_size, 4 * size)
        first = size + (size if config.input_feeding else 0)
        # inputs of a layer: its own last state, and either h~ (first layer, with input feeding) or the state below
        self.gates = nn.ModuleList(nn.Linear(first if layer == 0 else 2 * size, 4 * size) for layer in range(layers))
        self.attention = Attention(
            make_score(config.score, query_size=size, key_size=size, hidden_size=size, max_length=config.max_length),
            make_alignment(
                find_variant(config.alignment, TABLE_NAMES, "alignment"),
                query_size=size,
                hidden_size=size,
                window=config.window,
                carries_weights=True,
            ),
        )
        self.combine = nn.Linear(2 * size, size, bias=False)
        self.dropout = nn.Dropout(config.dropout)
        self.readout = Readout(hidden_size=size, vocab_size=config.target_vocab_size)
        # biases and the score's parameters too, so this comes after every module
        for parameter in self.parameters():
            # single numbers, which only scores of other papers have, keep their start: the Gaussian's width is 1
            if parameter.ndim:
                nn.init.uniform_(parameter, -0.1, 0.1)

    def encode(self, source: PaddedTokens) -> Encoded:
        """Encode the source backwards, or both ways; its states are at the positions of their words."""
        encoding = ENCODERS[self.config.encoder]
        words = self.dropout(self.source_embedding(encoding.order(source.ids, source.lengths)))
        run = encoding.run(self.encoder, words, source.lengths)
        return Encoded(
            memory=self.attention.prepare_memory(encoding.order(run.outputs, source.lengths), mask=source.mask),
            lengths=source.lengths,
            # (B, layers, H) -> one (B, H) per layer, as the decoder updates them one by one
            hidden=run.state.hidden.unbind(1),
            cells=run.state.cell.unbind(1),
        )

    def start(self, encoded: Encoded) -> State:
        """The encoder's last states, layer by layer."""
        return State(hidden=encoded.hidden, cells=encoded.cells, attended=torch.zeros_like(encoded.hidden[0]))

    def advance(self, word: Float[Tensor, "B gates"], state: State, encoded: Encoded) -> ModelOutput:
        """Update the stack by one word, then attend with the top state; `word` is the word's share of the gates."""
        hidden, cells = [], []
        below = state.attended if self.config.input_feeding else None
        for layer, gates in enumerate(self.gates):
            before = state.hidden[layer]
            sums = gates(before if below is None else torch.cat([below, before], dim=-1))
            # the word's share has been projected already, and belongs to the first layer only
            parts = (sums + word if layer == 0 else sums).chunk(4, dim=-1)
            # torch's order of the gates; one LSTM call over all positions is not possible, as h~ enters at every step
            input_gate, forget_gate, candidate, output_gate = parts
            cell = torch.sigmoid(forget_gate) * state.cells[layer] + torch.sigmoid(input_gate) * torch.tanh(candidate)
            cells.append(cell)
            hidden.append(torch.sigmoid(output_gate) * torch.tanh(cell))
            # dropout between layers, never on the state that the next step receives
            below = self.dropout(hidden[-1]) if layer + 1 < len(self.gates) else hidden[-1]
        # filled on the device: a tensor of a Python list is copied from the host, which a CUDA graph rejects
        position_info = PositionInfo(
            positions=torch.full((1,), state.length, device=word.device),
            lengths=encoded.lengths,
            previous_weights=state.weights,
        )
        attended = self.attention(
            hidden[-1].unsqueeze(1), encoded.memory, position_info=position_info, return_weights=True
        )
        assert attended.weights is not None
        # the same h~, after dropout, is the input of the readout and of the next step
        features = self.dropout(torch.tanh(self.combine(torch.cat([attended.context[:, 0], hidden[-1]], dim=-1))))
        weights = attended.weights[:, 0]
        after = State(
            hidden=tuple(hidden),
            cells=tuple(cells),
            attended=features,
            length=state.length + 1,
            weights=weights if needs_previous_weights(self.attention.align) else None,
        )
        return ModelOutput(features=features, state=after, weights=weights)

    def step(self, tokens: Int[Tensor, " B"], state: State, encoded: Encoded) -> Step:
        """Read one target token and predict the next."""
        advanced = self.advance(self._project_words(tokens), state, encoded)
        return Step(logits=self.readout(advanced.features), state=advanced.state, weights=advanced.weights)

    def features(self, source: PaddedTokens, target: PaddedTokens) -> ModelOutput:
        """Inputs of the readout at every target position; words are projected all at once, states step by step."""
        encoded = self.encode(source)
        words = self._project_words(target.ids)
        features = unroll_features(self.advance, words, state=self.start(encoded), encoded=encoded)
        return ModelOutput(features=features)

    def forward(self, source: PaddedTokens, target: PaddedTokens) -> Float[Tensor, "B T vocab"]:
        """Logits for every target position, given the true previous tokens."""
        return self.readout(self.features(source, target).features)

    def _project_words(self, ids: Int[Tensor, "*B"]) -> Float[Tensor, "*B gates"]:
        """The words' share of the first layer's gates."""
        return self.word_gates(self.dropout(self.target_embedding(ids)))
