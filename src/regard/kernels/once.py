"""Backward passes that have none of their own, and say so.

Torch's `once_differentiable` speaks up only where the gradient that comes in must itself be differentiated; where it is
a constant, as after a sum, gradients of gradients would be wrong without a word.
"""

from collections.abc import Callable
from functools import wraps
from typing import Any

import torch
from torch.autograd.function import once_differentiable

LOOP = "Recurrent models take readable steps, which can, inside regard.trace(model)."
"""The way out of a loop's backward pass."""


def differentiable_once(way_out: str) -> Callable[[Callable[..., Any]], Callable[..., Any]]:
    """The backward of an autograd function, refused where somebody asks for a graph of it."""

    def decorate(backward: Callable[..., Any]) -> Callable[..., Any]:
        first = once_differentiable(backward)

        @wraps(backward)
        def guarded(ctx: Any, *grads: Any) -> Any:
            if torch.is_grad_enabled():
                raise RuntimeError(
                    f"a fused backward pass cannot be differentiated in turn (create_graph=True). {way_out}"
                )
            return first(ctx, *grads)

        return guarded

    return decorate
