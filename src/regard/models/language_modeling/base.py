"""Base class and helpers of language models: `step` and `forward` in terms of `start` and `features`.

Shapes: B batch, T tokens, N layers, H hidden units.
"""

from abc import ABC, abstractmethod
from typing import Any, TypeVar

import torch
from jaxtyping import Float, Int
from torch import Tensor, nn

from regard.contracts import ModelOutput, OutputLayer, Step, leaves, map_tensors
from regard.layers import LSTMRun, LSTMState, run_lstm

Nest = TypeVar("Nest")


class LanguageModelBase(nn.Module, ABC):
    """A language model that defines `start` and `features`; `step` and `forward` follow from them."""

    readout: OutputLayer

    @abstractmethod
    def start(self, batch_size: int) -> Any:
        """The state before the first token, on the model's device."""

    @abstractmethod
    def features(self, tokens: Int[Tensor, "B T"], state: Any) -> ModelOutput:
        """Process many tokens."""

    def step(self, tokens: Int[Tensor, " B"], state: Any) -> Step:
        """Process one token and predict the next."""
        # (B) -> (B, 1) and back: a step is a text of one token
        output = self.features(tokens.unsqueeze(1), state)
        return Step(logits=self.readout(output.features[:, 0]), state=output.state)

    def forward(self, tokens: Int[Tensor, "B T"]) -> Float[Tensor, "B T vocab"]:
        """Logits after every token, from the start state."""
        return self.readout(self.features(tokens, self.start(tokens.shape[0])).features)


class WordLSTM(nn.Module):
    """Embedding and a stack of LSTMs, with dropout on the embeddings and between layers."""

    def __init__(
        self, *, vocab_size: int, embedding_size: int, hidden_size: int, num_layers: int = 1, dropout: float = 0.0
    ) -> None:
        super().__init__()
        self.embedding = nn.Embedding(vocab_size, embedding_size)
        # with one layer nn.LSTM has no place for this dropout and warns
        between = dropout if num_layers > 1 else 0.0
        self.lstm = nn.LSTM(embedding_size, hidden_size, num_layers, batch_first=True, dropout=between)
        self.dropout = nn.Dropout(dropout)

    def start(self, batch_size: int) -> LSTMState:
        """A state of zeros."""
        zeros = self.embedding.weight.new_zeros(batch_size, self.lstm.num_layers, self.lstm.hidden_size)
        # two tensors: an update in place of one must not change the other
        return LSTMState(hidden=zeros, cell=zeros.clone())

    def forward(self, tokens: Int[Tensor, "B T"], state: LSTMState) -> LSTMRun:
        """The top layer's output at every token, and the state after the last."""
        # nn.LSTM rejects sequences of length 0
        if not tokens.shape[1]:
            # an empty slice has the right batch size, hidden size, device and precision
            return LSTMRun(outputs=state.hidden[:, :0, :], state=state)
        run = run_lstm(self.lstm, self.dropout(self.embedding(tokens)), state=state)
        return LSTMRun(outputs=run.outputs, state=cast_like(run.state, state))


def cast_like(state: Nest, other: Nest) -> Nest:
    """The state in the dtypes of another, so that a carried state keeps its precision under autocast."""
    dtypes = iter([tensor.dtype for tensor in leaves(other)])
    # `map_tensors` visits tensors in the order of `leaves`, so the n-th dtype belongs to the n-th tensor
    return map_tensors(lambda tensor: tensor.to(next(dtypes)), state)


def draw_uniform(model: nn.Module, bound: float) -> None:
    """Draw every parameter uniformly from [-bound, bound]."""
    for parameter in model.parameters():
        nn.init.uniform_(parameter, -bound, bound)


def set_forget_bias(lstm: nn.LSTM, bias: float = 1.0) -> None:
    """Set the bias of every forget gate (1: Jozefowicz et al. 2015, https://proceedings.mlr.press/v37/jozefowicz15)."""
    size = lstm.hidden_size
    with torch.no_grad():
        for number in range(lstm.num_layers):
            # torch orders the gates input, forget, cell, output; it adds two biases, so one of them is 0
            getattr(lstm, f"bias_ih_l{number}")[size : 2 * size] = bias
            getattr(lstm, f"bias_hh_l{number}")[size : 2 * size] = 0.0
