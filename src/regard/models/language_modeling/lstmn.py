"""LSTMN language model: an LSTM that looks back at its own states, one by one, before every word.

    a_i  = v . tanh(W_h h_i + W_x x_t + W_g h~_{t-1}),   i < t
    h~_t = sum_i softmax(a)_i h_i,   c~_t = sum_i softmax(a)_i c_i
    h_t, c_t = LSTM cell of x_t, h~_t, c~_t (layers/tape.py),   p(w_{t+1}) = softmax(W h_t + b)

Cheng, Dong and Lapata 2016, sections 3 and 5.1. https://arxiv.org/abs/1601.06733

Departs from the paper: its tape is as long as a sentence; here a text goes on, and the tape holds its last `span` cells
exactly, of whatever sentence. Dropout (on words, between layers, on h_t) is ours, and so are small first vectors of
words and forget gates that begin open. A deeper stack feeds h_t upwards.

Shapes: B rows, T tokens.
"""

from collections.abc import Sequence
from dataclasses import dataclass
from typing import cast

from jaxtyping import Int
from torch import Tensor, nn

from regard.contracts import ModelOutput
from regard.layers import Readout, RollingTape, TapeCell, roll, start_rolling
from regard.models.language_modeling.base import Reader

BOUND = 0.1
"""Of the words' first vectors."""


@dataclass(frozen=True, kw_only=True)
class LSTMNLanguageConfig:
    """Defaults are the published sizes of one layer (section 5.1); `span` is how many cells are looked at."""

    vocab_size: int = 10_000
    embedding_size: int = 150
    hidden_size: int = 300
    num_layers: int = 1
    span: int = 50
    dropout: float = 0.0


class LSTMNLanguageModel(Reader):
    """Keeps its last states apart instead of folding them into one."""

    def __init__(self, config: LSTMNLanguageConfig) -> None:
        super().__init__()
        if config.span < 1:
            raise ValueError(f"span is {config.span}, expected 1 or more cells to look back at.")
        self.config = config
        self.embedding = nn.Embedding(config.vocab_size, config.embedding_size)
        sizes = [config.embedding_size] + [config.hidden_size] * (config.num_layers - 1)
        cells = [TapeCell(input_size=size, hidden_size=config.hidden_size) for size in sizes]
        self.cells = cast("Sequence[TapeCell]", nn.ModuleList(cells))
        self.dropout = nn.Dropout(config.dropout)
        nn.init.uniform_(self.embedding.weight, -BOUND, BOUND)
        for cell in cells:
            nn.init.ones_(cell.gates.bias.data[config.hidden_size : 2 * config.hidden_size])
        self.readout = Readout(hidden_size=config.hidden_size, vocab_size=config.vocab_size)

    def start(self, num_rows: int) -> tuple[RollingTape, ...]:
        """A tape a layer, with nothing written."""
        return tuple(start_rolling(cell, num_rows=num_rows, span=self.config.span) for cell in self.cells)

    def read(self, tokens: Int[Tensor, "B T"], state: tuple[RollingTape, ...]) -> ModelOutput:
        """Layer by layer: none asks a later one."""
        states, after = self.dropout(self.embedding(tokens)), []
        for cell, tape in zip(self.cells, state, strict=True):
            done = roll(cell, states, tape)
            states = self.dropout(done.hidden)
            after.append(done.tape)
        return ModelOutput(features=states, state=tuple(after))
