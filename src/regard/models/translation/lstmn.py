"""LSTMN encoder-decoder: two readers with tapes instead of one memory, and attention between the tapes.

    encoder:  hidden tape g_1 .. g_m and memory tape alpha_1 .. alpha_m of the source (layers/tape.py)
    shallow:  b_j = u . tanh(W g_j + W' h_{t-1}),   g~_t = sum_j softmax(b)_j g_j joins the input: [x_t; g~_t]
    deep:     b_j = u . tanh(W_1 g_j + W_2 x_t + W_3 g~_{t-1}),   [g~_t; alpha~_t] = sum_j softmax(b)_j [g_j; alpha_j]
              r = sigmoid(W_r [g~_t; x_t]),   c_t = r alpha~_t + f c~_t + i c^_t
    p(y_t) = softmax(W h_t)

Cheng, Dong and Lapata 2016, sections 3 and 4. https://arxiv.org/abs/1601.06733
`Step.alignment` is the look across to the source (deep: of the top layer), not the looks back at the own tape.

Departs from the paper: its two-sequence task was inference, so translation, its readout and the dropout (on words,
between layers, on h_t) are ours, and there is no published BLEU. For shallow fusion it refers to Bahdanau et al.: the
state before the word asks, and the context enters the cell. With several layers, deep fusion joins each to the source
tape of its own height; shallow fusion reads the top one.
"""

from collections.abc import Sequence
from dataclasses import dataclass
from typing import cast

import torch
from jaxtyping import Bool, Float, Int
from torch import Tensor, nn

from regard._utils import find_variant
from regard.attention import Attention
from regard.attention.scores import Additive
from regard.contracts import Memory, ModelOutput, PaddedTokens, Step
from regard.kernels import linear
from regard.kernels.recurrent import AdditiveLook, RepeatedLinear
from regard.layers import (
    Advanced,
    Readout,
    Steps,
    Tape,
    TapeAttention,
    TapeCell,
    TapeLoop,
    TapeScore,
    TapeStack,
    going,
    looks_plainly,
    may_fuse,
    unroll_features,
)


@dataclass(frozen=True, kw_only=True)
class LSTMNConfig:
    """Defaults are the published sizes of the larger inference model (section 5.3); `fusion` is shallow or deep."""

    source_vocab_size: int = 30_000
    target_vocab_size: int = 30_000
    embedding_size: int = 300
    hidden_size: int = 450
    num_layers: int = 1
    fusion: str = "deep"
    dropout: float = 0.0


@dataclass(frozen=True, kw_only=True)
class Encoded:
    """Source tapes as the fusion reads them: of every layer (deep) or of the top one (shallow)."""

    memories: tuple[Memory, ...]


@dataclass(frozen=True, kw_only=True)
class State:
    """The decoder's own tapes, and the last g~ of each look across."""

    tapes: tuple[Tape, ...]
    across: tuple[Float[Tensor, "B H"], ...]


def make_stack(config: LSTMNConfig) -> TapeStack:
    """Tape cells that read embedded words."""
    return TapeStack(
        input_size=config.embedding_size,
        hidden_size=config.hidden_size,
        num_layers=config.num_layers,
        dropout=config.dropout,
    )


class ShallowFusion(nn.Module):
    """Attention beside the tapes: what it finds is one more input."""

    def __init__(self, config: LSTMNConfig) -> None:
        super().__init__()
        size = config.hidden_size
        self.stack = make_stack(config)
        self.attention = Attention(Additive(query_size=size, key_size=size, hidden_size=size))
        self.context_proj = nn.Linear(size, 5 * size, bias=False)

    def prepare_memory(self, tapes: tuple[Tape, ...], mask: Bool[Tensor, "B source"]) -> tuple[Memory, ...]:
        """The top hidden tape."""
        return (self.attention.prepare_memory(tapes[-1].hidden, mask=mask),)

    def start(self, states: Float[Tensor, "B ..."]) -> State:
        """Empty tapes; the query is the state itself, so no g~ is carried."""
        return State(tapes=self.stack.start(states), across=())

    def project(self, words: Float[Tensor, "*B word"]) -> Float[Tensor, "*B projected"]:
        """The words' share of the first cell, for any number of positions at once."""
        return self.stack.project(words)

    def forward(self, word: Float[Tensor, "B projected"], state: State, memories: tuple[Memory, ...]) -> Advanced:
        """Look across with the state before this word, then read word and context side by side."""
        read = self.attention(state.tapes[-1].last.unsqueeze(1), memories[0], return_weights=True)
        assert read.weights is not None
        # W [x; g~] = W_x x + W_g g~, and W_x x is there already
        tapes: tuple[Tape, ...] = self.stack(word + self.context_proj(read.context[:, 0]), state.tapes)
        return Advanced(features=tapes[-1].last, state=State(tapes=tapes, across=()), alignment=read.weights[:, 0])

    def may_fuse(self) -> bool:
        """Whether `move` may take the weights."""
        if not looks_plainly(self.attention, Additive) or not all(cell.may_fuse() for cell in self.stack.cells):
            return False
        return may_fuse(self, self.context_proj, cast(Additive, self.attention.score).query_proj)

    def move(self, words: Float[Tensor, "N word"], memories: tuple[Memory, ...], steps: Steps) -> Float[Tensor, "N H"]:
        """`forward` at every position: layers go together, for the top one asks before the first one reads."""
        score, (memory,), sizes = cast(Additive, self.attention.score), memories, steps.sizes
        look = AdditiveLook(memory.keys, score.energy, memory.values, memory.mask, sizes=sizes)
        query = RepeatedLinear(score.query_proj.weight, sizes=sizes)
        context = RepeatedLinear(self.context_proj.weight, sizes=sizes)
        first, *later = self.stack.cells
        between = [RepeatedLinear(cell.input_proj.weight, sizes=sizes) for cell in later]
        loops = [TapeLoop(cell, steps) for cell in self.stack.cells]
        state, states = words.new_zeros(sizes[0], loops[0].size), []
        for word in linear(words, first.input_proj.weight).split(sizes):
            state = loops[0](context(look(query(going(state, len(word))))[0], word))
            for project, loop in zip(between, loops[1:], strict=True):
                state = loop(project(self.stack.dropout(state)))
            states.append(state)
        return torch.cat(states)


class DeepLayer(nn.Module):
    """A tape cell into whose memory the source's memory is mixed."""

    def __init__(self, *, input_size: int, hidden_size: int) -> None:
        super().__init__()
        self.hidden_size = hidden_size
        self.cell = TapeCell(input_size=input_size, hidden_size=hidden_size)
        self.across = TapeAttention(hidden_size=hidden_size)
        self.input_proj = nn.Linear(input_size, 2 * hidden_size, bias=False)
        self.gate = nn.Linear(hidden_size, hidden_size)

    def project(self, inputs: Float[Tensor, "*B input"]) -> Float[Tensor, "*B seven"]:
        """The inputs' share of the cell, of the query across and of the gate r."""
        return torch.cat([self.cell.project(inputs), self.input_proj(inputs)], dim=-1)

    def forward(
        self, projected: Float[Tensor, "B seven"], tape: Tape, summary: Float[Tensor, "B H"], memory: Memory
    ) -> tuple[Tape, Float[Tensor, "B H"], Float[Tensor, "B source"]]:
        """Look across, then back, then write; the tape after it, g~_t and the weights over the source."""
        own, query, gate = projected.split([5 * self.hidden_size, self.hidden_size, self.hidden_size], dim=-1)
        read = self.across(query, summary, memory, return_weights=True)
        assert read.weights is not None
        summary, source_memory = read.context[:, 0].chunk(2, dim=-1)
        fused = torch.sigmoid(gate + self.gate(summary)) * source_memory
        return self.cell(own, tape, fused), summary, read.weights[:, 0]

    def may_fuse(self) -> bool:
        """Whether `move` may take the weights."""
        looks = looks_plainly(self.across.attention, TapeScore) and self.cell.may_fuse()
        return looks and may_fuse(self, self.input_proj, self.gate, self.across.summary_proj)

    def move(self, inputs: Float[Tensor, "N input"], memory: Memory, steps: Steps) -> Float[Tensor, "N H"]:
        """`forward` at every position; the summary's products with the gate and with the next query are one."""
        size, sizes = self.hidden_size, steps.sizes
        score = cast(TapeScore, self.across.attention.score)
        look = AdditiveLook(memory.keys, score.energy, memory.values, memory.mask, sizes=sizes)
        both = torch.cat([self.gate.weight, self.across.summary_proj.weight])
        bias = torch.cat([self.gate.bias, both.new_zeros(size)])
        from_summary = RepeatedLinear(both, bias, sizes=sizes)
        loop = TapeLoop(self.cell, steps)
        projected = linear(inputs, torch.cat([self.cell.input_proj.weight, self.input_proj.weight]))
        asked, states = None, []
        for step in projected.split(sizes):
            own, query, gate = step.split([5 * size, size, size], dim=-1)
            context, _ = look(query if asked is None else query + going(asked, len(step)))
            summary, source_memory = context.chunk(2, dim=-1)
            opened, asked = from_summary(summary).chunk(2, dim=-1)
            states.append(loop(own, torch.sigmoid(gate + opened) * source_memory))
        return torch.cat(states)


class DeepFusion(nn.Module):
    """Attention inside the cell: the source's memory joins the new memory through a gate of its own."""

    def __init__(self, config: LSTMNConfig) -> None:
        super().__init__()
        sizes = [config.embedding_size] + [config.hidden_size] * (config.num_layers - 1)
        layers = [DeepLayer(input_size=size, hidden_size=config.hidden_size) for size in sizes]
        self.layers = cast("Sequence[DeepLayer]", nn.ModuleList(layers))
        self.dropout = nn.Dropout(config.dropout)

    def prepare_memory(self, tapes: tuple[Tape, ...], mask: Bool[Tensor, "B source"]) -> tuple[Memory, ...]:
        """Hidden and memory tape of each layer, compared by the hidden one."""
        return tuple(
            Memory(keys=layer.across.prepare(tape.hidden), values=tape.cells, mask=mask)
            for layer, tape in zip(self.layers, tapes, strict=True)
        )

    def start(self, states: Float[Tensor, "B ..."]) -> State:
        """Empty tapes, and nothing seen of the source."""
        tapes = tuple(layer.cell.start(states) for layer in self.layers)
        return State(tapes=tapes, across=tuple(tape.summary for tape in tapes))

    def project(self, words: Float[Tensor, "*B word"]) -> Float[Tensor, "*B projected"]:
        """The words' share of the first layer, for any number of positions at once."""
        return self.layers[0].project(words)

    def forward(self, word: Float[Tensor, "B projected"], state: State, memories: tuple[Memory, ...]) -> Advanced:
        """Every layer looks across, looks back and writes."""
        tapes: list[Tape] = []
        across: list[Tensor] = []
        weights = None
        for layer, tape, summary, memory in zip(self.layers, state.tapes, state.across, memories, strict=True):
            projected = layer.project(self.dropout(tapes[-1].last)) if tapes else word
            tape_after, summary_after, weights = layer(projected, tape, summary, memory)
            tapes.append(tape_after)
            across.append(summary_after)
        after = State(tapes=tuple(tapes), across=tuple(across))
        return Advanced(features=tapes[-1].last, state=after, alignment=weights)

    def may_fuse(self) -> bool:
        """Whether `move` may take the weights."""
        return all(layer.may_fuse() for layer in self.layers)

    def move(self, words: Float[Tensor, "N word"], memories: tuple[Memory, ...], steps: Steps) -> Float[Tensor, "N H"]:
        """`forward` at every position, layer by layer: none asks a later one."""
        states = self.layers[0].move(words, memories[0], steps)
        for layer, memory in zip(self.layers[1:], memories[1:], strict=True):
            states = layer.move(self.dropout(states), memory, steps)
        return states


FUSIONS: dict[str, type[ShallowFusion] | type[DeepFusion]] = {"shallow": ShallowFusion, "deep": DeepFusion}


class LSTMN(nn.Module):
    """Encoder and decoder that keep all they have read, and look at both tapes before every word."""

    def __init__(self, config: LSTMNConfig) -> None:
        super().__init__()
        self.config = config
        self.source_embedding = nn.Embedding(config.source_vocab_size, config.embedding_size)
        self.target_embedding = nn.Embedding(config.target_vocab_size, config.embedding_size)
        self.encoder = make_stack(config)
        self.decoder = find_variant(config.fusion, FUSIONS, "fusion")(config)
        self.dropout = nn.Dropout(config.dropout)
        self.readout = Readout(hidden_size=config.hidden_size, vocab_size=config.target_vocab_size)

    def encode(self, source: PaddedTokens) -> Encoded:
        """Write the source's tapes."""
        tapes = self.encoder.run(self.dropout(self.source_embedding(source.ids)), lengths=source.lengths)
        return Encoded(memories=self.decoder.prepare_memory(tapes, source.mask))

    def start(self, encoded: Encoded) -> State:
        """Nothing written yet."""
        return self.decoder.start(encoded.memories[0].values)

    def advance(self, word: Float[Tensor, "B projected"], state: State, encoded: Encoded) -> Advanced:
        """Read one word, given as what the decoder's first layer takes of it."""
        done: Advanced = self.decoder(word, state, encoded.memories)
        return done

    def step(self, tokens: Int[Tensor, " B"], state: State, encoded: Encoded) -> Step:
        """Read one target token and predict the next."""
        done = self.advance(self._words(tokens), state, encoded)
        return Step(logits=self.readout(self.dropout(done.features)), state=done.state, alignment=done.alignment)

    def features(self, source: PaddedTokens, target: PaddedTokens) -> ModelOutput:
        """What the readout sees at every target position; words enter all at once, cells one by one."""
        encoded = self.encode(source)
        if may_fuse(self) and self.decoder.may_fuse():
            steps = Steps.of(target.lengths, target.ids.shape[1])
            words = self.dropout(self.target_embedding(steps.pack(target.ids)))
            memories = tuple(map(steps.sort_memory, encoded.memories))
            return ModelOutput(features=steps.unpack(self.dropout(self.decoder.move(words, memories, steps))))
        moved = unroll_features(self.advance, self._words(target.ids), state=self.start(encoded), encoded=encoded)
        return ModelOutput(features=self.dropout(moved))

    def forward(self, source: PaddedTokens, target: PaddedTokens) -> Float[Tensor, "B T vocab"]:
        """Logits for every target position, given the true previous tokens."""
        return self.readout(self.features(source, target).features)

    def _words(self, ids: Int[Tensor, "*B"]) -> Float[Tensor, "*B projected"]:
        """What each word says to the decoder's first layer."""
        return self.decoder.project(self.dropout(self.target_embedding(ids)))
