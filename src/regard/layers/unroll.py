"""Teacher forcing: a step-by-step decoder over a whole target at once.

The true previous token goes in at each step; with an `own_output_ratio` some rows read what they themselves just said
instead (scheduled sampling, Bengio et al. 2015. https://arxiv.org/abs/1506.03099).
"""

from collections.abc import Callable
from typing import Any

import torch
from jaxtyping import Float, Int
from torch import Tensor

from regard.contracts import Step


def unroll(
    step: Callable[[Tensor, Any, Any], Step],
    tokens: Int[Tensor, "B T"],
    *,
    state: Any,
    encoded: Any = None,
    own_output_ratio: float = 0.0,
) -> Float[Tensor, "B T vocab"]:
    """Logits after every token; the first token is always the true one."""
    if not 0.0 <= own_output_ratio <= 1.0:
        raise ValueError(f"own_output_ratio is {own_output_ratio}, expected a share between 0 and 1.")
    if tokens.shape[1] == 0:
        raise ValueError(f"tokens have shape {tuple(tokens.shape)}: a target begins with at least one token.")
    logits: list[Tensor] = []
    for position in range(tokens.shape[1]):
        read = tokens[:, position]
        if logits and own_output_ratio:
            own = torch.rand(read.shape, device=read.device) < own_output_ratio
            read = torch.where(own, logits[-1].detach().argmax(dim=-1), read)
        done = step(read, state, encoded)
        state = done.state
        logits.append(done.logits)
    return torch.stack(logits, dim=1)
