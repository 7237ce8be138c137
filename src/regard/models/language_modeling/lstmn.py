"""LSTMN language model: an LSTM that attends to its own past states before every word.

    a_i  = v . tanh(W_h h_i + W_x x_t + W_g h~_{t-1}),   i < t
    h~_t = sum_i softmax(a)_i h_i,   c~_t = sum_i softmax(a)_i c_i
    h_t, c_t = LSTM cell of x_t, h~_t, c~_t (layers/lstmn.py),   p(w_{t+1}) = softmax(W h_t + b)

Cheng, Dong and Lapata 2016, sections 3 and 5.1. https://arxiv.org/abs/1601.06733

Departs from the paper: its tapes are as long as a sentence; here they hold the last `span` cells, of whatever sentence,
so that a text may be read piece by piece. Dropout (on words, between layers, on h_t) is ours, and so are small initial
word vectors and forget gates with a bias of 1. In a deeper stack h_t is the input of the next layer.

Shapes: B batch, T tokens.
"""

from collections.abc import Sequence
from dataclasses import dataclass
from typing import cast

from jaxtyping import Int
from torch import Tensor, nn

from regard.contracts import ModelOutput
from regard.layers import LSTMNCell, Readout, WindowedMemory, run_windowed, start_windowed
from regard.models.language_modeling.base import LanguageModelBase

BOUND = 0.1
"""Bound of the initial word vectors."""


@dataclass(frozen=True, kw_only=True)
class LSTMNLanguageConfig:
    """Defaults are the published sizes of one layer (section 5.1); it attends to `span` cells."""

    vocab_size: int = 10_000
    embedding_size: int = 150
    hidden_size: int = 300
    num_layers: int = 1
    span: int = 50
    dropout: float = 0.0


class LSTMNLanguageModel(LanguageModelBase):
    """A stack of LSTMN cells, each with a window of its last states."""

    def __init__(self, config: LSTMNLanguageConfig) -> None:
        super().__init__()
        if config.span < 1:
            raise ValueError(f"span is {config.span}, expected 1 or more cells.")
        self.config = config
        self.embedding = nn.Embedding(config.vocab_size, config.embedding_size)
        sizes = [config.embedding_size] + [config.hidden_size] * (config.num_layers - 1)
        cells = [LSTMNCell(input_size=size, hidden_size=config.hidden_size) for size in sizes]
        self.cells = cast("Sequence[LSTMNCell]", nn.ModuleList(cells))
        self.dropout = nn.Dropout(config.dropout)
        nn.init.uniform_(self.embedding.weight, -BOUND, BOUND)
        for cell in cells:
            cell.set_forget_bias(1.0)
        self.readout = Readout(hidden_size=config.hidden_size, vocab_size=config.vocab_size)

    def start(self, batch_size: int) -> tuple[WindowedMemory, ...]:
        """An empty window for every layer."""
        return tuple(start_windowed(cell, batch_size=batch_size, span=self.config.span) for cell in self.cells)

    def features(self, tokens: Int[Tensor, "B T"], state: tuple[WindowedMemory, ...]) -> ModelOutput:
        """Read many tokens layer by layer: no layer depends on a later one."""
        # whole texts per layer: the inputs of a cell can then be projected in one matrix product
        states, memories = self.dropout(self.embedding(tokens)), []
        for cell, window in zip(self.cells, state, strict=True):
            run = run_windowed(cell, states, window)
            states = self.dropout(run.hidden)
            memories.append(run.memory)
        return ModelOutput(features=states, state=tuple(memories))
