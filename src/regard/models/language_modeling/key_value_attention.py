"""LSTM language models with attention over their last outputs; separate keys, values and predictions.

    h_t = [k_t; v_t; p_t] = LSTM(x_t, h_{t-1}),   K, V: the last L of them before t
    M   = tanh(W_Y K + W_h k_t),   alpha = softmax(w . M),   r = V alpha
    h*  = tanh(W_r r + W_x p_t),   p(w_{t+1}) = softmax(W h* + b)

Key-Value-Predict. In Key-Value h_t = [k_t; v_t] and v_t also predicts; with Attention k_t = v_t = p_t = h_t.
Daniluk, Rocktaeschel, Welbl and Riedel 2017, section 2. https://arxiv.org/abs/1702.04521

The attention result does not enter the LSTM, so the LSTM runs over the whole text, and then one attention of
(B, T, L + T) is computed, whose keys are the L outputs before the text and those of the text, in time order. With fewer
than L earlier outputs, attention is over those that exist; for the first word r = 0.

Departs from the paper: the paper chose sizes so that all its models had equally many parameters; here `hidden_size` is
the size of h* in every variant, and the LSTM's output is one, two or three times as large. Dropout (on words, between
layers, on h*) is ours.

Shapes: B batch, T tokens, L window, H hidden size.
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
from regard.models.language_modeling.base import LanguageModelBase, WordLSTM, cast_like, draw_uniform, set_forget_bias

BOUND = 0.1
"""Bound of the initial weights; the forget bias starts at 1."""


@dataclass(frozen=True, kw_only=True)
class WindowedAttentionConfig:
    """`hidden_size` is the size of h*, the input of the output layer; `window` is L."""

    vocab_size: int = 10_000
    embedding_size: int = 300
    hidden_size: int = 300
    num_layers: int = 1
    window: int = 15
    dropout: float = 0.0


class AttentionLanguageConfig(WindowedAttentionConfig):
    """The LSTM's output has `hidden_size`."""


class KeyValueConfig(WindowedAttentionConfig):
    """The LSTM's output has 2 `hidden_size`."""


class KeyValuePredictConfig(WindowedAttentionConfig):
    """The LSTM's output has 3 `hidden_size`."""


@dataclass(frozen=True, kw_only=True)
class State:
    """The LSTM's state, the concatenated keys and values of its last L outputs, and which of those exist."""

    lstm: LSTMState
    past: Float[Tensor, "B L kept"]
    real: Bool[Tensor, "B L"]


class WindowedAttentionModel(LanguageModelBase):
    """An LSTM whose outputs, split into one to three parts, are attended to by later outputs."""

    num_parts: ClassVar[int]

    def __init__(self, config: WindowedAttentionConfig) -> None:
        super().__init__()
        if config.window < 1:
            raise ValueError(
                f"window is {config.window}, expected 1 or more: the number of earlier outputs that are attended to."
            )
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
        # after the uniform draw, which would overwrite it
        set_forget_bias(self.words.lstm)

    def start(self, batch_size: int) -> State:
        """An empty window."""
        lstm, length = self.words.start(batch_size), self.config.window
        # keys and values are cached; predictions are not
        cached_size = min(self.num_parts, 2) * self.config.hidden_size
        past = lstm.hidden.new_zeros(batch_size, length, cached_size)
        # before the first token all L positions are zeros that the mask `real` excludes
        return State(lstm=lstm, past=past, real=past.new_zeros(batch_size, length, dtype=torch.bool))

    def features(self, tokens: Int[Tensor, "B T"], state: State) -> ModelOutput:
        """The LSTM over all tokens, then one attention for all of them."""
        run, num_tokens = self.words(tokens, state.lstm), tokens.shape[1]
        # under autocast the outputs may have a lower precision than the state
        # keys and values are the first parts of an output, so one slice takes both
        past = torch.cat([state.past.to(run.outputs.dtype), run.outputs[..., : state.past.shape[-1]]], dim=1)
        real = torch.cat([state.real, torch.ones_like(tokens, dtype=torch.bool)], dim=1)
        features = self._attend(run.outputs, past, real)
        # the last L positions, whether T is smaller or larger than L
        after = State(lstm=run.state, past=past[:, num_tokens:], real=real[:, num_tokens:])
        return ModelOutput(features=self.dropout(features), state=cast_like(after, state))

    def _attend(
        self,
        outputs: Float[Tensor, "B T parts"],
        past: Float[Tensor, "B LT kept"],
        real: Bool[Tensor, "B LT"],
    ) -> Float[Tensor, "B T H"]:
        """h* of every output, from the outputs strictly before it."""
        # with one part, keys and values are the same vectors
        keys, values = past.chunk(2, dim=-1) if self.num_parts > 1 else (past, past)
        parts = outputs.chunk(self.num_parts, dim=-1)
        memory = self.attention.prepare_memory(keys, values=values, mask=real)
        # with more keys than queries the last query has the position of the last key, so L keys precede the first
        # the window includes the own position (distance 0), which is not attended to
        before = causal() & window(self.config.window) & ~window(0)
        context = self.attention(parts[0], memory, mask=before).context
        return torch.tanh(self.context_proj(context) + self.own_proj(parts[-1]))


class AttentionLanguageModel(WindowedAttentionModel):
    """One vector is the key, the value and the prediction."""

    num_parts = 1


class KeyValue(WindowedAttentionModel):
    """Separate keys; the values also predict."""

    num_parts = 2


class KeyValuePredict(WindowedAttentionModel):
    """Separate keys, values and predictions."""

    num_parts = 3
