"""Attention over what a language model just said, in three forms: one vector for all, keys apart, predictions apart.

    h_t = [k_t; v_t; p_t] = LSTM(x_t, h_{t-1}),   K, V: the last L of them before t
    M   = tanh(W_Y K + W_h k_t),   alpha = softmax(w . M),   r = V alpha
    h*  = tanh(W_r r + W_x p_t),   p(w_{t+1}) = softmax(W h* + b)

Key-Value-Predict. In Key-Value h_t = [k_t; v_t] and v_t also predicts; with Attention k_t = v_t = p_t = h_t.
Daniluk, Rocktaeschel, Welbl and Riedel 2017, section 2. https://arxiv.org/abs/1702.04521

The LSTM never sees what was found, so a text goes through it at once and is then looked at at once: one attention of
(B, T, L + T), whose keys are the L outputs before the text and those of the text, in time order. Where less than L was
read, rows look at what there is, and the first word at nothing: r = 0.

Departs from the paper: it chose the sizes so that all its models had equally many parameters; here `hidden_size` is
that of h*, in every form, and the LSTM's output is once, twice or three times as large. Dropout (on words, between
layers, on h*) is ours.

Shapes: B rows, T tokens, L window, H hidden size.
"""

from dataclasses import dataclass
from typing import ClassVar

import torch
from jaxtyping import Bool, Float, Int
from torch import Tensor, nn

from regard.attention import Attention
from regard.attention.masks import causal, window
from regard.attention.scores import Additive
from regard.contracts import ModelOutput
from regard.layers import LSTMState, Readout
from regard.models.language_modeling.base import Reader, WordLSTM, as_kept, draw_uniform, open_forget_gates

BOUND = 0.1
"""Of the initial weights; forget gates begin open."""


@dataclass(frozen=True, kw_only=True)
class LookingBackConfig:
    """`hidden_size` is the size of h*, which the readout sees; `window` is L."""

    vocab_size: int = 10_000
    embedding_size: int = 300
    hidden_size: int = 300
    num_layers: int = 1
    window: int = 15
    dropout: float = 0.0


class AttentionLanguageConfig(LookingBackConfig):
    """The LSTM's output has `hidden_size`."""


class KeyValueConfig(LookingBackConfig):
    """The LSTM's output has 2 `hidden_size`."""


class KeyValuePredictConfig(LookingBackConfig):
    """The LSTM's output has 3 `hidden_size`."""


@dataclass(frozen=True, kw_only=True)
class State:
    """The LSTM's state, the keys and values of its last L outputs side by side, and which of those are real."""

    lstm: LSTMState
    past: Float[Tensor, "B L kept"]
    real: Bool[Tensor, "B L"]


class LookingBack(Reader):
    """An LSTM whose outputs, in one to three parts, are looked at by the next ones."""

    num_parts: ClassVar[int]

    def __init__(self, config: LookingBackConfig) -> None:
        super().__init__()
        if config.window < 1:
            raise ValueError(f"window is {config.window}, expected 1 or more outputs to look back at.")
        self.config = config
        size = config.hidden_size
        self.words = WordLSTM(
            vocab_size=config.vocab_size,
            embedding_size=config.embedding_size,
            hidden_size=self.num_parts * size,
            num_layers=config.num_layers,
            dropout=config.dropout,
        )
        self.attention = Attention(Additive(query_size=size, key_size=size, hidden_size=size))
        self.context_proj = nn.Linear(size, size, bias=False)
        self.own_proj = nn.Linear(size, size, bias=False)
        self.dropout = nn.Dropout(config.dropout)
        self.readout = Readout(hidden_size=size, vocab_size=config.vocab_size)
        draw_uniform(self, BOUND)
        open_forget_gates(self.words.lstm)

    def start(self, num_rows: int) -> State:
        """Nothing to look at."""
        lstm, length = self.words.start(num_rows), self.config.window
        kept = min(self.num_parts, 2) * self.config.hidden_size
        past = lstm.hidden.new_zeros(num_rows, length, kept)
        return State(lstm=lstm, past=past, real=past.new_zeros(num_rows, length, dtype=torch.bool))

    def read(self, tokens: Int[Tensor, "B T"], state: State) -> ModelOutput:
        """All words through the LSTM, then all looks back."""
        run, num_tokens = self.words(tokens, state.lstm), tokens.shape[1]
        # under autocast the work is all in one precision
        past = torch.cat([state.past.to(run.outputs.dtype), run.outputs[..., : state.past.shape[-1]]], dim=1)
        real = torch.cat([state.real, torch.ones_like(tokens, dtype=torch.bool)], dim=1)
        features = self._look(run.outputs, past, real)
        after = State(lstm=run.state, past=past[:, num_tokens:], real=real[:, num_tokens:])
        return ModelOutput(features=self.dropout(features), state=as_kept(after, state))

    def _look(
        self,
        outputs: Float[Tensor, "B T parts"],
        past: Float[Tensor, "B LT kept"],
        real: Bool[Tensor, "B LT"],
    ) -> Float[Tensor, "B T H"]:
        """h* of every output, from what came strictly before it."""
        keys, values = past.chunk(2, dim=-1) if self.num_parts > 1 else (past, past)
        parts = outputs.chunk(self.num_parts, dim=-1)
        memory = self.attention.prepare_memory(keys, values=values, mask=real)
        before = causal() & window(self.config.window) & ~window(0)
        context = self.attention(parts[0], memory, mask=before).context
        return torch.tanh(self.context_proj(context) + self.own_proj(parts[-1]))


class AttentionLanguageModel(LookingBack):
    """One vector is key, value and prediction."""

    num_parts = 1


class KeyValue(LookingBack):
    """Keys are compared, values are read and predict."""

    num_parts = 2


class KeyValuePredict(LookingBack):
    """Keys are compared, values are read, and a third part predicts."""

    num_parts = 3
