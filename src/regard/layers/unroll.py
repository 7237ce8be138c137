"""Teacher forcing for stepwise decoders: unrolling a step over a target.

`unroll_features` is used in training: words are embedded before the loop, the output layer is applied after it to all
positions, and only the recurrence is computed stepwise. `unroll` runs the complete step. A model may have a faster loop
(kernels/recurrent, steps.py); `may_fuse` returns whether it is allowed.

The input of each step is the true previous token; with `own_output_ratio`, a share of the batch gets the model's own
last prediction instead (scheduled sampling, Bengio et al. 2015. https://arxiv.org/abs/1506.03099).
"""

from collections.abc import Callable
from dataclasses import dataclass
from typing import Any

import torch
from jaxtyping import Float, Int
from torch import Tensor, nn

from regard.attention import Attention
from regard.attention.alignments import Softmax
from regard.contracts import Step, active_recorders, has_hooks
from regard.kernels import is_tracing

OURS = ("regard", "torch")
"""Packages whose classes a fused loop may replace."""


@dataclass(frozen=True, kw_only=True)
class Advanced:
    """One step before the output layer: its input, the next state, and the attention weights over the source."""

    features: Float[Tensor, "B size"]
    state: Any
    alignment: Float[Tensor, "B source"] | None = None


def looks_plainly(attention: Attention, *scores: type) -> bool:
    """Whether an attention uses softmax, one of these scores, and no dropout."""
    return type(attention.align) is Softmax and type(attention.score) in scores and not attention.dropout


def may_fuse(model: nn.Module, *layers: nn.Module) -> bool:
    """Whether a fused loop may use the weights of these layers instead of calling `advance`.

    False with active traces, tracing or compilation, hooks, classes of other packages, and layers that are not
    `nn.Linear`, because a fused loop would bypass them.
    """
    if active_recorders() or is_tracing() or any(type(layer) is not nn.Linear for layer in layers):
        return False
    foreign = any(type(part).__module__.split(".")[0] not in OURS for part in model.modules())
    return not foreign and not has_hooks(model)


def unroll_features(
    advance: Callable[[Tensor, Any, Any], Advanced], words: Float[Tensor, "B T word"], *, state: Any, encoded: Any
) -> Float[Tensor, "B T size"]:
    """Features at every position; each step gets the true word and the previous state."""
    features: list[Tensor] = []
    for word in words.unbind(dim=1):
        advanced = advance(word, state, encoded)
        # the output layer runs once after the loop, so only its inputs are collected
        state = advanced.state
        features.append(advanced.features)
    return torch.stack(features, dim=1)


def unroll(
    step: Callable[[Tensor, Any, Any], Step],
    tokens: Int[Tensor, "B T"],
    *,
    state: Any,
    encoded: Any = None,
    own_output_ratio: float = 0.0,
) -> Float[Tensor, "B T vocab"]:
    """Logits after every token; the first input is always the true token."""
    if not 0.0 <= own_output_ratio <= 1.0:
        raise ValueError(f"own_output_ratio is {own_output_ratio}, expected a share between 0 and 1.")
    if tokens.shape[1] == 0:
        raise ValueError(f"tokens have shape {tuple(tokens.shape)}: a target begins with at least one token.")
    logits: list[Tensor] = []
    for position in range(tokens.shape[1]):
        inputs = tokens[:, position]
        if logits and own_output_ratio:
            # drawn per batch element and step
            is_own = torch.rand(inputs.shape, device=inputs.device) < own_output_ratio
            # detached: no gradient flows through the sampled choice
            inputs = torch.where(is_own, logits[-1].detach().argmax(dim=-1), inputs)
        output = step(inputs, state, encoded)
        state = output.state
        logits.append(output.logits)
    return torch.stack(logits, dim=1)
