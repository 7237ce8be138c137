"""Teacher forcing for stepwise decoders: unrolling a step over a target.

`unroll_features` is for training: the words are embedded beforehand, the readout is applied afterwards to all positions
at once, and only what depends on the last state is computed step by step. `unroll` runs whole steps.

Each step reads the true previous token. With an `own_output_ratio`, some batch elements read their own last prediction
instead (scheduled sampling, Bengio et al. 2015. https://arxiv.org/abs/1506.03099).
"""

from collections.abc import Callable
from typing import Any

import torch
from jaxtyping import Float, Int
from torch import Tensor

from regard.contracts import ModelOutput, Step


def unroll_features(
    advance: Callable[[Tensor, Any, Any], ModelOutput], words: Float[Tensor, "B T word"], *, state: Any, encoded: Any
) -> Float[Tensor, "B T size"]:
    """Features at every position; each step gets the true word and the previous state."""
    features: list[Tensor] = []
    for word in words.unbind(dim=1):
        advanced = advance(word, state, encoded)
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
        # the first token has no prediction before it
        if logits and own_output_ratio:
            # drawn for each batch element, and on its device, so that nothing is copied
            replaced = torch.rand(inputs.shape, device=inputs.device) < own_output_ratio
            # a prediction is a discrete choice, through which no gradient flows
            inputs = torch.where(replaced, logits[-1].detach().argmax(dim=-1), inputs)
        output = step(inputs, state, encoded)
        state = output.state
        logits.append(output.logits)
    return torch.stack(logits, dim=1)
