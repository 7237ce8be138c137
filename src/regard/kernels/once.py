"""Backward passes that have none of their own, and say so.

Torch's `once_differentiable` speaks up only where the gradient that comes in must itself be differentiated; where it is
a constant, as after a sum, gradients of gradients would be wrong without a word.
"""

from collections.abc import Callable
from functools import wraps
from typing import Any

import torch
from torch.autograd.function import once_differentiable


def differentiable_once(backward: Callable[..., Any]) -> Callable[..., Any]:
    """The backward of an autograd function, refused where somebody asks for a graph of it."""
    first = once_differentiable(backward)

    @wraps(backward)
    def guarded(ctx: Any, *grads: Any) -> Any:
        if torch.is_grad_enabled():
            raise RuntimeError(
                "a fused backward pass cannot be differentiated in turn (create_graph=True). Recurrent models take "
                "readable steps, which can, inside regard.trace(model); the loss has plain_cross_entropy, beside the "
                "fused one in regard.kernels.cross_entropy."
            )
        return first(ctx, *grads)

    return guarded
