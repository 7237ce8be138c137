"""N-gram RNN: the output combines parts of the LSTM's last outputs, without attention.

    h_t = [h_t^1; ..; h_t^{N-1}] = LSTM(x_t, h_{t-1})
    h*_t = tanh(W [h_t^1; h_{t-1}^2; ..; h_{t-N+2}^{N-1}]),   p(w_{t+1}) = softmax(W' h*_t + b)

Daniluk, Rocktaeschel, Welbl and Riedel 2017, section 2.4. https://arxiv.org/abs/1702.04521
Outputs before the first word are zeros.

Departs from the paper: sizes are ours, as in key_value_attention.py; `hidden_size` is the size of h* and of each part.
Dropout (on words, between layers, on h*) is ours.

Shapes: B batch, T tokens, N order, H hidden size.
"""

from dataclasses import dataclass

import torch
from jaxtyping import Float, Int
from torch import Tensor, nn

from regard.contracts import ModelOutput
from regard.layers import LSTMState, Readout
from regard.models.language_modeling.base import LanguageModelBase, WordLSTM, cast_like, draw_uniform, set_forget_bias

BOUND = 0.1
"""Bound of the initial weights; the forget bias starts at 1."""


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


class NGramRNN(LanguageModelBase):
    """Every LSTM output has one part for each of the next N - 1 predictions."""

    def __init__(self, config: NGramRNNConfig) -> None:
        super().__init__()
        if config.order < 2:
            raise ValueError(f"order is {config.order}, expected 2 or more: order - 1 outputs are combined.")
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
        # after the uniform draw, which would overwrite it
        set_forget_bias(self.words.lstm)

    def start(self, batch_size: int) -> State:
        """A state of zeros."""
        lstm, size = self.words.start(batch_size), self.words.lstm.hidden_size
        return State(lstm=lstm, past=lstm.hidden.new_zeros(batch_size, self.config.order - 2, size))

    def features(self, tokens: Int[Tensor, "B T"], state: State) -> ModelOutput:
        """The LSTM over all tokens; part i comes from i - 1 outputs ago."""
        run, num_tokens = self.words(tokens, state.lstm), tokens.shape[1]
        # (B, N - 2 + T, parts): the state supplies the outputs that the first tokens combine
        outputs = torch.cat([state.past.to(run.outputs.dtype), run.outputs], dim=1)
        parts = outputs.chunk(self.config.order - 1, dim=-1)
        # past outputs are in front, so part i starts i - 1 positions earlier
        shifted = [part[:, len(parts) - 1 - ago :][:, :num_tokens] for ago, part in enumerate(parts)]
        features = torch.tanh(self.joined(torch.cat(shifted, dim=-1)))
        # the last N - 2 outputs, also with fewer new tokens than that
        after = State(lstm=run.state, past=outputs[:, num_tokens:])
        return ModelOutput(features=self.dropout(features), state=cast_like(after, state))
