"""N-gram RNN: the parts of an LSTM's last few outputs side by side, and no attention at all.

    h_t = [h_t^1; ..; h_t^{N-1}] = LSTM(x_t, h_{t-1})
    h*_t = tanh(W [h_t^1; h_{t-1}^2; ..; h_{t-N+2}^{N-1}]),   p(w_{t+1}) = softmax(W' h*_t + b)

Daniluk, Rocktaeschel, Welbl and Riedel 2017, section 2.4. https://arxiv.org/abs/1702.04521
Outputs from before the first word are zeros.

Departs from the paper: sizes are ours, as in attention.py; `hidden_size` is that of h* and of each part. Dropout (on
words, between layers, on h*) is ours.

Shapes: B rows, T tokens, N order, H hidden size.
"""

from dataclasses import dataclass

import torch
from jaxtyping import Float, Int
from torch import Tensor, nn

from regard.contracts import ModelOutput
from regard.layers import LSTMState, Readout
from regard.models.language_modeling.base import Reader, WordLSTM, as_kept, draw_uniform, open_forget_gates

BOUND = 0.1
"""Of the initial weights; forget gates begin open."""


@dataclass(frozen=True, kw_only=True)
class NGramRNNConfig:
    """`order` is N: the LSTM's output has (N - 1) `hidden_size`."""

    vocab_size: int = 10_000
    embedding_size: int = 300
    hidden_size: int = 300
    num_layers: int = 1
    order: int = 4
    dropout: float = 0.0


@dataclass(frozen=True, kw_only=True)
class State:
    """The LSTM's state, and its last N - 2 outputs."""

    lstm: LSTMState
    past: Float[Tensor, "B before parts"]


class NGramRNN(Reader):
    """Every output says something to each of the next N - 1 predictions."""

    def __init__(self, config: NGramRNNConfig) -> None:
        super().__init__()
        if config.order < 2:
            raise ValueError(f"order is {config.order}, expected 2 or more: order - 1 outputs are seen.")
        self.config = config
        size, num_parts = config.hidden_size, config.order - 1
        self.words = WordLSTM(
            vocab_size=config.vocab_size,
            embedding_size=config.embedding_size,
            hidden_size=num_parts * size,
            num_layers=config.num_layers,
            dropout=config.dropout,
        )
        self.joined = nn.Linear(num_parts * size, size, bias=False)
        self.dropout = nn.Dropout(config.dropout)
        self.readout = Readout(hidden_size=size, vocab_size=config.vocab_size)
        draw_uniform(self, BOUND)
        open_forget_gates(self.words.lstm)

    def start(self, num_rows: int) -> State:
        """Nothing said yet."""
        lstm, size = self.words.start(num_rows), self.words.lstm.hidden_size
        return State(lstm=lstm, past=lstm.hidden.new_zeros(num_rows, self.config.order - 2, size))

    def read(self, tokens: Int[Tensor, "B T"], state: State) -> ModelOutput:
        """All words through the LSTM; part i comes from i - 1 outputs ago."""
        run, num_tokens = self.words(tokens, state.lstm), tokens.shape[1]
        outputs = torch.cat([state.past.to(run.outputs.dtype), run.outputs], dim=1)
        parts = outputs.chunk(self.config.order - 1, dim=-1)
        seen = [part[:, len(parts) - 1 - ago :][:, :num_tokens] for ago, part in enumerate(parts)]
        features = torch.tanh(self.joined(torch.cat(seen, dim=-1)))
        after = State(lstm=run.state, past=outputs[:, num_tokens:])
        return ModelOutput(features=self.dropout(features), state=as_kept(after, state))
