"""What every reader of a text does alike: one step is a reading of one token, and logits are the readout of features.

Shapes: B rows, T tokens, N layers, H hidden units.
"""

from abc import ABC, abstractmethod
from typing import Any, TypeVar

import torch
from jaxtyping import Float, Int
from torch import Tensor, nn

from regard.contracts import ModelOutput, OutputLayer, Step, leaves, map_tensors
from regard.layers import LSTMRun, LSTMState, run_lstm

Nest = TypeVar("Nest")


class Reader(nn.Module, ABC):
    """A language model that says how it starts and how it reads; step and forward follow."""

    readout: OutputLayer

    @abstractmethod
    def start(self, num_rows: int) -> Any:
        """The state before the first token, for so many rows, where the model is."""

    @abstractmethod
    def read(self, tokens: Int[Tensor, "B T"], state: Any) -> ModelOutput:
        """Read many tokens."""

    def step(self, tokens: Int[Tensor, " B"], state: Any) -> Step:
        """Read one token and predict the next."""
        done = self.read(tokens.unsqueeze(1), state)
        return Step(logits=self.readout(done.features[:, 0]), state=done.state)

    def forward(self, tokens: Int[Tensor, "B T"]) -> Float[Tensor, "B T vocab"]:
        """Logits behind every token, from the start."""
        return self.readout(self.read(tokens, self.start(tokens.shape[0])).features)


class WordLSTM(nn.Module):
    """Embedded words through a stack of LSTMs; dropout on the words and between layers."""

    def __init__(
        self, *, vocab_size: int, embedding_size: int, hidden_size: int, num_layers: int = 1, dropout: float = 0.0
    ) -> None:
        super().__init__()
        self.embedding = nn.Embedding(vocab_size, embedding_size)
        between = dropout if num_layers > 1 else 0.0
        self.lstm = nn.LSTM(embedding_size, hidden_size, num_layers, batch_first=True, dropout=between)
        self.dropout = nn.Dropout(dropout)

    def start(self, num_rows: int) -> LSTMState:
        """Zeros."""
        zeros = self.embedding.weight.new_zeros(num_rows, self.lstm.num_layers, self.lstm.hidden_size)
        return LSTMState(hidden=zeros, cell=zeros.clone())

    def forward(self, tokens: Int[Tensor, "B T"], state: LSTMState) -> LSTMRun:
        """The top layer behind every token, and the state after the last."""
        if not tokens.shape[1]:
            return LSTMRun(outputs=state.hidden[:, :0, :], state=state)
        run = run_lstm(self.lstm, self.dropout(self.embedding(tokens)), state=state)
        return LSTMRun(outputs=run.outputs, state=as_kept(run.state, state))


def as_kept(after: Nest, before: Nest) -> Nest:
    """The state after in the precision of the state before: autocast is for the work, not for what is carried."""
    dtypes = iter([tensor.dtype for tensor in leaves(before)])
    return map_tensors(lambda tensor: tensor.to(next(dtypes)), after)


def draw_uniform(model: nn.Module, bound: float) -> None:
    """Every weight uniform in [-bound, bound]."""
    for parameter in model.parameters():
        nn.init.uniform_(parameter, -bound, bound)


def open_forget_gates(lstm: nn.LSTM, bias: float = 1.0) -> None:
    """A bias for every forget gate (1: Jozefowicz et al. 2015, https://proceedings.mlr.press/v37/jozefowicz15)."""
    size = lstm.hidden_size
    with torch.no_grad():
        for number in range(lstm.num_layers):
            getattr(lstm, f"bias_ih_l{number}")[size : 2 * size] = bias
            getattr(lstm, f"bias_hh_l{number}")[size : 2 * size] = 0.0
