"""Teacher forcing: a step-by-step decoder over a whole target.

`unroll_features` is what training runs: the words are embedded beforehand, the readout is applied afterwards to all
positions at once, and only what depends on the last state is done step by step. `unroll` goes through the whole step.
A model may have a faster loop of its own (kernels/recurrent, steps.py); `may_fuse` says where it must not take it.

The true previous token goes in at each step; with an `own_output_ratio` some rows read what they themselves just said
instead (scheduled sampling, Bengio et al. 2015. https://arxiv.org/abs/1506.03099).
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
"""Where the classes come from whose steps are known."""


@dataclass(frozen=True, kw_only=True)
class Advanced:
    """One step before its readout: what the readout sees, the state after it, and where the model looked."""

    features: Float[Tensor, "B size"]
    state: Any
    alignment: Float[Tensor, "B source"] | None = None


def looks_plainly(attention: Attention, *scores: type) -> bool:
    """Whether a loop may look for this attention: by softmax, and by one of these scores."""
    return type(attention.align) is Softmax and type(attention.score) in scores and not attention.dropout


def may_fuse(model: nn.Module, *layers: nn.Module) -> bool:
    """Whether a loop may take these layers' weights and leave `advance` out.

    Not where a trace listens or a compiler reads along, nor where any part has hooks or is of a class made elsewhere,
    nor where one of the layers is not a plain `nn.Linear` any more: all of those would be passed by.
    """
    if active_recorders() or is_tracing() or any(type(layer) is not nn.Linear for layer in layers):
        return False
    foreign = any(type(part).__module__.split(".")[0] not in OURS for part in model.modules())
    return not foreign and not has_hooks(model)


def unroll_features(
    advance: Callable[[Tensor, Any, Any], Advanced], words: Float[Tensor, "B T word"], *, state: Any, encoded: Any
) -> Float[Tensor, "B T size"]:
    """Features at every position, each step reading the true word and the state before it."""
    features: list[Tensor] = []
    for word in words.unbind(dim=1):
        done = advance(word, state, encoded)
        state = done.state
        features.append(done.features)
    return torch.stack(features, dim=1)


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
