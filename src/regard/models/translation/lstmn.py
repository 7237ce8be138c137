"""LSTMN encoder-decoder: two LSTMNs that keep all their states, and attention from the second to the first.

    encoder:  hidden tape g_1 .. g_m and memory tape alpha_1 .. alpha_m of the source (layers/lstmn.py)
    shallow:  b_j = u . tanh(W g_j + W' h_{t-1}),   g~_t = sum_j softmax(b)_j g_j joins the input: [x_t; g~_t]
    deep:     b_j = u . tanh(W_1 g_j + W_2 x_t + W_3 g~_{t-1}),   [g~_t; alpha~_t] = sum_j softmax(b)_j [g_j; alpha_j]
              r = sigmoid(W_r [g~_t; x_t]),   c_t = r alpha~_t + f c~_t + i c^_t
    p(y_t) = softmax(W h_t)

Cheng, Dong and Lapata 2016, sections 3 and 4. https://arxiv.org/abs/1601.06733
`Step.weights` has the attention to the source (deep: of the top layer), not that to the decoder's own tapes.

Departs from the paper: its two-sequence task was inference, so translation, its readout and the dropout (on words,
between layers, on h_t) are ours, and there is no published BLEU. For shallow fusion it refers to Bahdanau et al.: the
state before the word is the query, and the context is an input of the cell. With several layers, deep fusion joins each
to the source tapes of the same layer; shallow fusion attends to those of the top one. Forget gates begin with a bias of
`forget_bias`. `zero_cell` begins every tape with a cell of zeros, as the authors' code does and the paper's sum from
i = 1 does not. The authors' encoder leaves h~_{t-1} out of its query, ours follows the paper. `alignment` selects
another alignment of the attention to the source.

Shapes: B batch, T target positions, H hidden size.
"""

from collections.abc import Sequence
from dataclasses import dataclass
from typing import cast

import torch
from jaxtyping import Bool, Float, Int
from torch import Tensor, nn

from regard._utils import find_variant
from regard.attention import Attention, make_alignment
from regard.attention.scores import Additive
from regard.contracts import Alignment, Memory, ModelOutput, PaddedTokens, PositionInfo, Step
from regard.layers import LSTMNAttention, LSTMNCell, LSTMNMemory, LSTMNStack, Readout, unroll_features


@dataclass(frozen=True, kw_only=True)
class LSTMNConfig:
    """Defaults are the published sizes of the larger inference model (section 5.3); `fusion` is shallow or deep."""

    source_vocab_size: int = 30_000
    target_vocab_size: int = 30_000
    embedding_size: int = 300
    hidden_size: int = 450
    num_layers: int = 1
    fusion: str = "deep"
    zero_cell: bool = False
    forget_bias: float = 1.0
    alignment: str = "softmax"
    dropout: float = 0.0


@dataclass(frozen=True, kw_only=True)
class Encoded:
    """The source's tapes as the fusion attends to them: of every layer (deep) or of the top one (shallow)."""

    memories: tuple[Memory, ...]


@dataclass(frozen=True, kw_only=True)
class State:
    """The decoder's own tapes, and the last g~ of each attention to the source."""

    tapes: tuple[LSTMNMemory, ...]
    across: tuple[Float[Tensor, "B H"], ...]


def make_stack(config: LSTMNConfig) -> LSTMNStack:
    """Cells that read embedded words."""
    return LSTMNStack(
        input_size=config.embedding_size,
        hidden_size=config.hidden_size,
        num_layers=config.num_layers,
        dropout=config.dropout,
        zero_cell=config.zero_cell,
    )


def position_after(tape: LSTMNMemory, *, zero_cell: bool) -> PositionInfo:
    """The step that follows the cells of a tape, for alignments that depend on it."""
    # filled on the device: a tensor of a Python list is copied from the host, which a CUDA graph rejects
    step = tape.cells.shape[1] - zero_cell
    return PositionInfo(positions=torch.full((1,), step, device=tape.cells.device))


class ShallowFusion(nn.Module):
    """Attention to the source beside the cells: the context is one more input."""

    def __init__(self, config: LSTMNConfig) -> None:
        super().__init__()
        size = config.hidden_size
        self.stack = make_stack(config)
        self.zero_cell = config.zero_cell
        self.attention = Attention(
            Additive(query_size=size, key_size=size, hidden_size=size),
            make_alignment(config.alignment, query_size=size, hidden_size=size),
        )
        # 4 gates and the query: the sizes of a cell's projected input
        self.context_proj = nn.Linear(size, 5 * size, bias=False)

    def prepare_memory(self, tapes: tuple[LSTMNMemory, ...], mask: Bool[Tensor, "B source"]) -> tuple[Memory, ...]:
        """The top hidden tape."""
        # a tuple of one memory, so that both fusions have the same interface
        return (self.attention.prepare_memory(tapes[-1].hidden, mask=mask),)

    def start(self, states: Float[Tensor, "B ..."]) -> State:
        """Empty tapes; the query is the state itself, so there is no g~ to keep."""
        return State(tapes=self.stack.start(states), across=())

    def project(self, words: Float[Tensor, "*B word"]) -> Float[Tensor, "*B projected"]:
        """The words' share of the first cell, for any number of positions at once."""
        return self.stack.project(words)

    def forward(self, word: Float[Tensor, "B projected"], state: State, memories: tuple[Memory, ...]) -> ModelOutput:
        """Attend to the source with the state before this word, then process word and context together."""
        # (B, H) -> (B, 1, H): attention takes a sequence of queries
        query, position_info = (
            state.tapes[-1].last.unsqueeze(1),
            position_after(state.tapes[-1], zero_cell=self.zero_cell),
        )
        attended = self.attention(query, memories[0], position_info=position_info, return_weights=True)
        assert attended.weights is not None
        # W [x; g~] = W_x x + W_g g~, and `word` is W_x x
        projected = word + self.context_proj(attended.context[:, 0])
        tapes: tuple[LSTMNMemory, ...] = self.stack(projected, state.tapes)
        return ModelOutput(features=tapes[-1].last, state=State(tapes=tapes, across=()), weights=attended.weights[:, 0])


class DeepLayer(nn.Module):
    """A cell into whose memory the source's memory is mixed."""

    def __init__(self, *, input_size: int, hidden_size: int, zero_cell: bool, align: Alignment) -> None:
        super().__init__()
        self.hidden_size, self.zero_cell = hidden_size, zero_cell
        self.cell = LSTMNCell(input_size=input_size, hidden_size=hidden_size, zero_cell=zero_cell)
        self.across = LSTMNAttention(hidden_size=hidden_size, align=align)
        self.input_proj = nn.Linear(input_size, 2 * hidden_size, bias=False)
        self.gate = nn.Linear(hidden_size, hidden_size)

    def project(self, inputs: Float[Tensor, "*B input"]) -> Float[Tensor, "*B seven"]:
        """The inputs' share of the cell, of the query to the source and of the gate r."""
        # one split in `forward` undoes this concatenation: 5 H for the cell, H for the query, H for the gate r
        return torch.cat([self.cell.project(inputs), self.input_proj(inputs)], dim=-1)

    def forward(
        self, projected: Float[Tensor, "B seven"], tape: LSTMNMemory, summary: Float[Tensor, "B H"], memory: Memory
    ) -> tuple[LSTMNMemory, Float[Tensor, "B H"], Float[Tensor, "B source"]]:
        """Attend to the source, then to the own tapes, then write; the tapes, g~_t and the weights over the source."""
        own, query, gate = projected.split([5 * self.hidden_size, self.hidden_size, self.hidden_size], dim=-1)
        position_info = position_after(tape, zero_cell=self.zero_cell)
        attended = self.across(query, summary, memory, position_info=position_info, return_weights=True)
        assert attended.weights is not None
        # values are [g; alpha], so one attention gives both weighted sums
        summary, source_memory = attended.context[:, 0].chunk(2, dim=-1)
        # the input's share of the gate r is in `gate`; the bias is in `self.gate`
        extra = torch.sigmoid(gate + self.gate(summary)) * source_memory
        return self.cell(own, tape, extra), summary, attended.weights[:, 0]


class DeepFusion(nn.Module):
    """Attention to the source inside the cell: the source's memory joins the new memory through a gate of its own."""

    def __init__(self, config: LSTMNConfig) -> None:
        super().__init__()
        # the first layer has words as input, every other one the states of the layer below
        sizes = [config.embedding_size] + [config.hidden_size] * (config.num_layers - 1)
        size = config.hidden_size
        layers = [
            DeepLayer(
                input_size=input_size,
                hidden_size=size,
                zero_cell=config.zero_cell,
                align=make_alignment(config.alignment, query_size=size, hidden_size=size),
            )
            for input_size in sizes
        ]
        self.layers = cast("Sequence[DeepLayer]", nn.ModuleList(layers))
        self.dropout = nn.Dropout(config.dropout)

    def prepare_memory(self, tapes: tuple[LSTMNMemory, ...], mask: Bool[Tensor, "B source"]) -> tuple[Memory, ...]:
        """Hidden and memory tape of each layer, with keys of the hidden one."""
        return tuple(
            Memory(keys=layer.across.prepare(tape.hidden), values=tape.cells, mask=mask)
            for layer, tape in zip(self.layers, tapes, strict=True)
        )

    def start(self, states: Float[Tensor, "B ..."]) -> State:
        """Empty tapes, and g~ = 0."""
        tapes = tuple(layer.cell.start(states) for layer in self.layers)
        return State(tapes=tapes, across=tuple(tape.summary for tape in tapes))

    def project(self, words: Float[Tensor, "*B word"]) -> Float[Tensor, "*B projected"]:
        """The words' share of the first layer, for any number of positions at once."""
        return self.layers[0].project(words)

    def forward(self, word: Float[Tensor, "B projected"], state: State, memories: tuple[Memory, ...]) -> ModelOutput:
        """One step of every layer."""
        tapes: list[LSTMNMemory] = []
        across: list[Tensor] = []
        weights = None
        for layer, tape, summary, memory in zip(self.layers, state.tapes, state.across, memories, strict=True):
            # only the first layer's input is known before the loop; dropout acts between layers
            projected = layer.project(self.dropout(tapes[-1].last)) if tapes else word
            # the weights of the last iteration remain: the top layer's
            next_tape, next_summary, weights = layer(projected, tape, summary, memory)
            tapes.append(next_tape)
            across.append(next_summary)
        after = State(tapes=tuple(tapes), across=tuple(across))
        return ModelOutput(features=tapes[-1].last, state=after, weights=weights)


FUSIONS: dict[str, type[ShallowFusion] | type[DeepFusion]] = {"shallow": ShallowFusion, "deep": DeepFusion}


class LSTMN(nn.Module):
    """Encoder and decoder that keep all their states, and attend to both before every word."""

    def __init__(self, config: LSTMNConfig) -> None:
        super().__init__()
        self.config = config
        self.source_embedding = nn.Embedding(config.source_vocab_size, config.embedding_size)
        self.target_embedding = nn.Embedding(config.target_vocab_size, config.embedding_size)
        self.encoder = make_stack(config)
        self.decoder = find_variant(config.fusion, FUSIONS, "fusion")(config)
        self.dropout = nn.Dropout(config.dropout)
        self.readout = Readout(hidden_size=config.hidden_size, vocab_size=config.target_vocab_size)
        for module in self.modules():
            if isinstance(module, LSTMNCell):
                module.set_forget_bias(config.forget_bias)

    def encode(self, source: PaddedTokens) -> Encoded:
        """Write the source's tapes."""
        # padding follows the words and no cell attends to later ones; the mask excludes its cells from the decoder
        tapes = self.encoder.run(self.dropout(self.source_embedding(source.ids)))
        # a first cell of zeros belongs to the encoder alone
        tapes = tuple(tape.recent(source.ids.shape[1]) for tape in tapes)
        return Encoded(memories=self.decoder.prepare_memory(tapes, source.mask))

    def start(self, encoded: Encoded) -> State:
        """Empty tapes."""
        # any tensor of the batch: only its batch size, device and precision are used
        return self.decoder.start(encoded.memories[0].values)

    def advance(self, word: Float[Tensor, "B projected"], state: State, encoded: Encoded) -> ModelOutput:
        """Read one word; `word` is its share of the decoder's first layer."""
        advanced: ModelOutput = self.decoder(word, state, encoded.memories)
        return advanced

    def step(self, tokens: Int[Tensor, " B"], state: State, encoded: Encoded) -> Step:
        """Read one target token and predict the next."""
        advanced = self.advance(self._project_words(tokens), state, encoded)
        logits = self.readout(self.dropout(advanced.features))
        return Step(logits=logits, state=advanced.state, weights=advanced.weights)

    def features(self, source: PaddedTokens, target: PaddedTokens) -> ModelOutput:
        """Inputs of the readout at every target position; words are projected all at once, cells step by step."""
        encoded = self.encode(source)
        words = self._project_words(target.ids)
        features = unroll_features(self.advance, words, state=self.start(encoded), encoded=encoded)
        return ModelOutput(features=self.dropout(features))

    def forward(self, source: PaddedTokens, target: PaddedTokens) -> Float[Tensor, "B T vocab"]:
        """Logits for every target position, given the true previous tokens."""
        return self.readout(self.features(source, target).features)

    def _project_words(self, ids: Int[Tensor, "*B"]) -> Float[Tensor, "*B projected"]:
        """The words' share of the decoder's first layer."""
        return self.decoder.project(self.dropout(self.target_embedding(ids)))
