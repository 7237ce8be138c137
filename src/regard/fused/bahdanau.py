"""Fused training loop of RNNsearch.

    q_t, a_t = [W; U_rz] s_{t-1},   context gates_t = attend(q_t; keys U h_j, values C h_j),   s_t = GRU step
    c_t = sum_j a_tj h_j   for all t at once, after the loop

Shapes: B batch, T target positions, S source positions, H hidden units.
"""

from typing import cast

import torch
from jaxtyping import Bool, Float
from torch import Tensor

from regard.attention.scores import Additive
from regard.contracts import PaddedTokens
from regard.fused.training import FusedTranslation, attention_reasons
from regard.kernels.recurrent import DeferredLinear, StepwiseAdditiveAttention, gru_blend, gru_reset
from regard.models.translation import Bahdanau


class FusedBahdanau(FusedTranslation[Bahdanau]):
    """RNNsearch with a fused training loop."""

    def unsupported_reasons(self) -> list[str]:
        """Why the model's own loop runs at present; [] if the fused one does."""
        return attention_reasons(self.model.attention, Additive) + super().unsupported_reasons()

    def loop(self, source: PaddedTokens, target: PaddedTokens) -> Float[Tensor, "B T maxout"]:
        """As `Bahdanau.features`."""
        model: Bahdanau = self.model
        states = model.encoder(model.dropout(model.source_embedding(source.ids)), source.lengths)
        # positions first, so that the memory of one step is contiguous
        words = model.dropout(model.target_embedding(target.ids.t()))
        hidden, weights = decode(model, states, source.mask, model.word_gates(words))
        # only the readout reads the contexts: one product for all steps
        contexts = weights.to(states.dtype) @ states
        return model.maxout_features(torch.cat([hidden, contexts], dim=-1), words.transpose(0, 1))


def decode(
    model: Bahdanau,
    states: Float[Tensor, "B S states"],
    mask: Bool[Tensor, "B S"],
    word_gates: Float[Tensor, "T B gates"],
) -> tuple[Float[Tensor, "B T H"], Float[Tensor, "B T S"]]:
    """The decoder's states and the attention weights at every target position."""
    score, size = cast(Additive, model.attention.score), model.config.hidden_size
    num_steps, batch_size, _ = word_gates.shape
    # the attention's query W s and the gates' U_rz s are products with the same state: one product
    joined = torch.cat([score.query_proj.weight, model.decoder.gates.weight])
    from_state = DeferredLinear(joined, num_steps=num_steps, batch_size=batch_size)
    candidate = DeferredLinear(model.decoder.candidate.weight, num_steps=num_steps, batch_size=batch_size)
    # context gates are linear in the context, so C is applied to the states once and not to the context at every step
    keys, values = score.key_proj(states), model.context_gates(states)
    attention = StepwiseAdditiveAttention(keys, score.energy, values, mask, num_steps=num_steps)
    # the second half of the first position is the last state of the backward encoder
    state = torch.tanh(model.start_proj(states[:, 0, size:]))
    hidden, weights = [], []
    for word in word_gates.unbind(0):
        # (B, alignment) and (B, 2 H)
        query, gates = from_state(state).split([model.config.alignment_size, 2 * size], dim=-1)
        context_gates, step_weights = attention(query)
        input_gates, input_candidate = (word + context_gates).split([2 * size, size], dim=-1)
        reset_state, update = gru_reset(gates + input_gates, state)
        state = gru_blend(candidate(reset_state, input_candidate), update, state)
        hidden.append(state)
        weights.append(step_weights)
    # (B, T, H) and (B, T, S)
    return torch.stack(hidden, dim=1), torch.stack(weights, dim=1)
