"""Luong: the current state looks at the source, everywhere or near a place.

    s_t = LSTM(s_{t-1}, [y_{t-1}; h~_{t-1}]),   a_t = align(score(s_t, h)),   c_t = sum_j a_tj h_j
    h~_t = tanh(W_c [c_t; s_t]),   p(y_t) = softmax(W h~_t)

Luong, Pham and Manning 2015. https://arxiv.org/abs/1508.04025
Stacked LSTMs on both sides; the encoder's last states start the decoder. Scores dot, general, concat and location
(section 3.1); alignments global, local_monotonic and local_predictive (section 3.2). `input_feeding` hands h~ to the
next step (section 3.3). The source is read backwards, its end mark first, as in all of the paper's better systems;
states are put back in order, so that positions count as the sentence does. Weights start uniform within 0.1.

Departs from the paper: dropout also acts on h~, both where it is read out and where it is fed. The decoder starts with
h~_0 = 0. Sources keep their end mark as a position to look at.
"""

from collections.abc import Callable, Sequence
from dataclasses import dataclass
from typing import cast

import torch
import torch.nn.functional as F
from jaxtyping import Float, Int
from torch import Tensor, nn

from regard._utils import find_variant
from regard.attention import Attention
from regard.attention.alignments import LocalMonotonic, LocalPredictive, Softmax
from regard.attention.scores import Concat, Dot, General, Location
from regard.contracts import Alignment, Memory, ModelOutput, PaddedTokens, PositionInfo, Score, Step
from regard.kernels import linear
from regard.kernels.recurrent import AdditiveLook, DotLook, RepeatedLinear, lstm_update
from regard.layers import (
    Advanced,
    Readout,
    Steps,
    going,
    looks_plainly,
    may_fuse,
    reverse_rows,
    run_lstm,
    unroll_features,
)


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
    window: int = 10
    max_length: int = 100
    input_feeding: bool = True
    dropout: float = 0.2


def concat(config: LuongConfig) -> Score:
    """The concat score, its hidden layer as wide as the states."""
    return Concat(query_size=config.hidden_size, key_size=config.hidden_size, hidden_size=config.hidden_size)


LUONG_SCORES: dict[str, Callable[[LuongConfig], Score]] = {
    "dot": lambda config: Dot(),
    "general": lambda config: General(query_size=config.hidden_size, key_size=config.hidden_size),
    "concat": concat,
    "location": lambda config: Location(query_size=config.hidden_size, max_length=config.max_length),
}

LUONG_ALIGNMENTS: dict[str, Callable[[LuongConfig], Alignment]] = {
    "global": lambda config: Softmax(),
    "local_monotonic": lambda config: LocalMonotonic(window=config.window),
    "local_predictive": lambda config: LocalPredictive(
        query_size=config.hidden_size, hidden_size=config.hidden_size, window=config.window
    ),
}


@dataclass(frozen=True, kw_only=True)
class Encoded:
    """The top states to look at, in the sentence's order, and each layer's last state and cell."""

    memory: Memory
    lengths: Int[Tensor, " B"]
    hidden: tuple[Float[Tensor, "B H"], ...]
    cells: tuple[Float[Tensor, "B H"], ...]


@dataclass(frozen=True, kw_only=True)
class State:
    """Each layer's state and cell, the last h~, and how many tokens were read."""

    hidden: tuple[Float[Tensor, "B H"], ...]
    cells: tuple[Float[Tensor, "B H"], ...]
    attended: Float[Tensor, "B H"]
    length: int = 0


def dropped(
    states: Float[Tensor, "B H"], drops: Float[Tensor, "layers B H"] | None, place: int
) -> Float[Tensor, "B H"]:
    """What dropout leaves of the states."""
    return states if drops is None else states * drops[place]


class Luong(nn.Module):
    """Encoder-decoder whose decoder looks after it has moved."""

    def __init__(self, config: LuongConfig) -> None:
        super().__init__()
        self.config = config
        size, layers = config.hidden_size, config.num_layers
        self.source_embedding = nn.Embedding(config.source_vocab_size, config.embedding_size)
        self.target_embedding = nn.Embedding(config.target_vocab_size, config.embedding_size)
        between = config.dropout if layers > 1 else 0.0
        self.encoder = nn.LSTM(config.embedding_size, size, layers, batch_first=True, dropout=between)
        # the word's share of the first layer, for all positions at once; the rest goes step by step
        self.word_gates = nn.Linear(config.embedding_size, 4 * size)
        first = size + (size if config.input_feeding else 0)
        self.gates = nn.ModuleList(nn.Linear(first if layer == 0 else 2 * size, 4 * size) for layer in range(layers))
        self.attention = Attention(
            find_variant(config.score, LUONG_SCORES, "score")(config),
            find_variant(config.alignment, LUONG_ALIGNMENTS, "alignment")(config),
        )
        self.combine = nn.Linear(2 * size, size, bias=False)
        self.dropout = nn.Dropout(config.dropout)
        self.readout = Readout(hidden_size=size, vocab_size=config.target_vocab_size)
        for parameter in self.parameters():
            nn.init.uniform_(parameter, -0.1, 0.1)

    def encode(self, source: PaddedTokens) -> Encoded:
        """Read the source backwards; the states go back to where their words stand."""
        words = self.dropout(self.source_embedding(reverse_rows(source.ids, source.lengths)))
        read = run_lstm(self.encoder, words, lengths=source.lengths)
        return Encoded(
            memory=self.attention.prepare_memory(reverse_rows(read.outputs, source.lengths), mask=source.mask),
            lengths=source.lengths,
            hidden=read.state.hidden.unbind(1),
            cells=read.state.cell.unbind(1),
        )

    def start(self, encoded: Encoded) -> State:
        """The encoder's last states, layer by layer."""
        return State(hidden=encoded.hidden, cells=encoded.cells, attended=torch.zeros_like(encoded.hidden[0]))

    def advance(self, word: Float[Tensor, "B gates"], state: State, encoded: Encoded) -> Advanced:
        """Move the stack by one word (given as its gates), then look with the top state."""
        hidden, cells = [], []
        below = state.attended if self.config.input_feeding else None
        for layer, gates in enumerate(self.gates):
            before = state.hidden[layer]
            moved = gates(before if below is None else torch.cat([below, before], dim=-1))
            taken, kept, new, shown = (moved + word if layer == 0 else moved).chunk(4, dim=-1)
            cells.append(torch.sigmoid(kept) * state.cells[layer] + torch.sigmoid(taken) * torch.tanh(new))
            hidden.append(torch.sigmoid(shown) * torch.tanh(cells[-1]))
            below = self.dropout(hidden[-1]) if layer + 1 < len(self.gates) else hidden[-1]
        look = PositionInfo(positions=torch.full((1,), state.length, device=word.device), lengths=encoded.lengths)
        read = self.attention(hidden[-1].unsqueeze(1), encoded.memory, position_info=look, return_weights=True)
        assert read.weights is not None
        attended = self.dropout(torch.tanh(self.combine(torch.cat([read.context[:, 0], hidden[-1]], dim=-1))))
        after = State(hidden=tuple(hidden), cells=tuple(cells), attended=attended, length=state.length + 1)
        return Advanced(features=attended, state=after, alignment=read.weights[:, 0])

    def step(self, tokens: Int[Tensor, " B"], state: State, encoded: Encoded) -> Step:
        """Read one target token and predict the next."""
        done = self.advance(self._words(tokens), state, encoded)
        return Step(logits=self.readout(done.features), state=done.state, alignment=done.alignment)

    def features(self, source: PaddedTokens, target: PaddedTokens) -> ModelOutput:
        """What the readout sees at every target position; words enter all at once, states one by one."""
        encoded = self.encode(source)
        layers = (self.combine, self.word_gates, *self.gates, *cast(nn.Module, self.attention.score).children())
        if looks_plainly(self.attention, Dot, General, Concat) and may_fuse(self, *layers):
            steps = Steps.of(target.lengths, target.ids.shape[1])
            words = self.dropout(self.target_embedding(steps.pack(target.ids)))
            moved = self._move(words, self.start(encoded), steps.sort_memory(encoded.memory), steps)
            return ModelOutput(features=steps.unpack(moved))
        moved = unroll_features(self.advance, self._words(target.ids), state=self.start(encoded), encoded=encoded)
        return ModelOutput(features=moved)

    def forward(self, source: PaddedTokens, target: PaddedTokens) -> Float[Tensor, "B T vocab"]:
        """Logits for every target position, given the true previous tokens."""
        return self.readout(self.features(source, target).features)

    def _words(self, ids: Int[Tensor, "*B"]) -> Float[Tensor, "*B gates"]:
        """What each word says to the first layer's gates."""
        return self.word_gates(self.dropout(self.target_embedding(ids)))

    def _move(self, words: Float[Tensor, "N word"], state: State, memory: Memory, steps: Steps) -> Float[Tensor, "N H"]:
        """What `advance` gives at every position; in the loop is only what needs the state before."""
        sizes = steps.sizes
        stack = cast("Sequence[nn.Linear]", self.gates)
        gates = [RepeatedLinear(layer.weight, layer.bias, sizes=sizes) for layer in stack]
        # W_c [c; s] = W_c' c + W_c'' s, and W_c' c is a weighted sum of W_c' h
        from_context, from_state = self.combine.weight.split(self.config.hidden_size, dim=1)
        look = self._look(memory, linear(memory.values, from_context.contiguous()), sizes)
        shown = RepeatedLinear(from_state, sizes=sizes)
        hidden, cells = ([steps.sort(part) for part in parts] for parts in (state.hidden, state.cells))
        attended, features = state.attended, []
        given = linear(words, self.word_gates.weight, self.word_gates.bias).split(sizes)
        for word, drops in zip(given, self._drops(words, sizes), strict=True):
            hidden, cells = ([going(part, len(word)) for part in parts] for parts in (hidden, cells))
            attended = going(attended, len(word))
            below = attended if self.config.input_feeding else None
            for layer, gate in enumerate(gates):
                inputs = hidden[layer] if below is None else torch.cat([below, hidden[layer]], dim=-1)
                hidden[layer], cells[layer] = lstm_update(gate(inputs, None if layer else word), cells[layer])
                # the top layer's own place among the drops is that of h~
                below = dropped(hidden[layer], None if layer + 1 == len(hidden) else drops, layer)
            attended = dropped(torch.tanh(shown(hidden[-1], look(hidden[-1]))), drops, -1)
            features.append(attended)
        return torch.cat(features)

    def _look(
        self, memory: Memory, values: Float[Tensor, "B K H"], sizes: list[int]
    ) -> Callable[[Float[Tensor, "B H"]], Float[Tensor, "B H"]]:
        """The same memory at every step of a loop: state to what it reads of these values."""
        score, size = self.attention.score, self.config.hidden_size
        if isinstance(score, Concat):
            query = RepeatedLinear(score.proj.weight[:, :size], sizes=sizes)
            additive = AdditiveLook(memory.keys, score.energy, values, memory.mask, sizes=sizes)
            return lambda state: additive(query(state))[0]
        # (W s) . k = s . (W^T k): once for every key
        keys = linear(memory.keys, score.query_proj.weight.t()) if isinstance(score, General) else memory.keys
        dots = DotLook(keys, values, memory.mask, sizes=sizes)
        return lambda state: dots(state)[0]

    def _drops(self, words: Float[Tensor, "N word"], sizes: list[int]) -> Sequence[Float[Tensor, "layers n H"] | None]:
        """For every step what dropout leaves of each layer but the top, and of h~; None where it leaves everything."""
        if not (self.dropout.training and self.dropout.p):
            return [None] * len(sizes)
        ones = words.new_ones(len(self.gates), words.shape[0], self.config.hidden_size)
        return F.dropout(ones, self.dropout.p).split(sizes, dim=1)
