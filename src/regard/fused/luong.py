"""Fused training loop of Luong's models with global attention.

    h~_t = tanh(W_c [c_t; s_t]) = tanh(W_c' c_t + W_c'' s_t),   W_c' c_t = sum_j a_tj (W_c' h_j)

The attention sums projected values, so that the loop multiplies by W_c'' alone.

Shapes: B batch, T target positions, S source positions, H hidden units.
"""

from collections.abc import Callable, Sequence
from typing import cast

import torch
import torch.nn.functional as F
from jaxtyping import Float
from torch import Tensor, nn

from regard.attention.scores import Concat, Dot, General
from regard.contracts import Memory, PaddedTokens
from regard.fused.training import FusedTranslation, attention_reasons
from regard.kernels.recurrent import DeferredLinear, StepwiseAdditiveAttention, StepwiseDotAttention, lstm_update
from regard.models.translation import Luong


class FusedLuong(FusedTranslation[Luong]):
    """Luong's model with a fused training loop."""

    def unsupported_reasons(self) -> list[str]:
        """Why the model's own loop runs at present; [] if the fused one does."""
        return attention_reasons(self.model.attention, Dot, General, Concat) + super().unsupported_reasons()

    def loop(self, source: PaddedTokens, target: PaddedTokens) -> Float[Tensor, "B T H"]:
        """As `Luong.features`."""
        model: Luong = self.model
        encoded = model.encode(source)
        # positions first, so that the memory of one step is contiguous
        word_gates = model.word_gates(model.dropout(model.target_embedding(target.ids.t())))
        state = model.start(encoded)
        return decode(model, word_gates, list(state.hidden), list(state.cells), encoded.memory)


def decode(
    model: Luong,
    word_gates: Float[Tensor, "T B gates"],
    hidden: list[Tensor],
    cells: list[Tensor],
    memory: Memory,
) -> Float[Tensor, "B T H"]:
    """h~ at every target position, from the first states and cells of all layers."""
    num_steps, batch_size, _ = word_gates.shape
    layers = cast(Sequence[nn.Linear], model.gates)
    gates = [DeferredLinear(layer.weight, layer.bias, num_steps=num_steps, batch_size=batch_size) for layer in layers]
    # W_c = [W_c' W_c''] acts on [c_t; s_t]
    from_context, from_state = model.combine.weight.split(model.config.hidden_size, dim=1)
    attend = make_attention(model, memory, F.linear(memory.values, from_context), num_steps)
    combine = DeferredLinear(from_state, num_steps=num_steps, batch_size=batch_size)
    attended, features = torch.zeros_like(hidden[0]), []
    for word, masks in zip(word_gates.unbind(0), dropout_masks(model, word_gates), strict=True):
        # input feeding: h~ of the previous step enters the first layer
        below = attended if model.config.input_feeding else None
        for layer, gate in enumerate(gates):
            inputs = hidden[layer] if below is None else torch.cat([below, hidden[layer]], dim=-1)
            hidden[layer], cells[layer] = lstm_update(gate(inputs, None if layer else word), cells[layer])
            # no dropout acts on the top state: the last mask is that of h~
            below = hidden[layer] if layer + 1 == len(gates) else drop(hidden[layer], masks, layer)
        attended = drop(torch.tanh(combine(hidden[-1], attend(hidden[-1]))), masks, -1)
        features.append(attended)
    return torch.stack(features, dim=1)


def make_attention(
    model: Luong, memory: Memory, values: Float[Tensor, "B S H"], num_steps: int
) -> Callable[[Float[Tensor, "B H"]], Float[Tensor, "B H"]]:
    """A function from a decoder state to the weighted sum of these values."""
    score, size = model.attention.score, model.config.hidden_size
    if isinstance(score, Concat):
        query = DeferredLinear(score.proj.weight[:, :size], num_steps=num_steps, batch_size=len(values))
        additive = StepwiseAdditiveAttention(memory.keys, score.energy, values, memory.mask, num_steps=num_steps)
        return lambda state: additive(query(state))[0]
    # (W s) . k = s . (W^T k): the product is formed once for every key
    keys = F.linear(memory.keys, score.query_proj.weight.t()) if isinstance(score, General) else memory.keys
    dots = StepwiseDotAttention(keys, values, memory.mask, num_steps=num_steps)
    return lambda state: dots(state)[0]


def dropout_masks(model: Luong, word_gates: Float[Tensor, "T B gates"]) -> Sequence[Tensor | None]:
    """For every step the factors of dropout, (layers, B, H): of each layer but the top, and of h~; None without any.

    They are drawn for all steps at once, which is one kernel.
    """
    num_steps, batch_size, _ = word_gates.shape
    if not (model.dropout.training and model.dropout.p):
        # without dropout no mask is allocated
        return [None] * num_steps
    # (T, layers, B, H); dropout of ones gives 0 or 1 / (1 - p)
    ones = word_gates.new_ones(num_steps, len(model.gates), batch_size, model.config.hidden_size)
    return F.dropout(ones, model.dropout.p).unbind(0)


def drop(states: Float[Tensor, "B H"], masks: Float[Tensor, "layers B H"] | None, layer: int) -> Float[Tensor, "B H"]:
    """The states times their factors of dropout."""
    return states if masks is None else states * masks[layer]
