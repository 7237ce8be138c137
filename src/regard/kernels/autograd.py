"""What custom autograd functions need: tracing checks, refusal of double backward, query blocks.

What may be done with a tensor: look at its numbers, differentiate by hand, multiply in which precision.

Backward passes that have none of their own, and say so.

Torch's `once_differentiable` speaks up only where the gradient that comes in must itself be differentiated; where it is
a constant, as after a sum, gradients of gradients would be wrong without a word.

Scores that need many numbers for each pair, a block of queries at a time: memory of one block, backward too.
"""

from collections.abc import Callable
from functools import wraps
from typing import Any

import torch
from jaxtyping import Float
from torch import Tensor
from torch.autograd.function import once_differentiable
from torch.utils.checkpoint import checkpoint


def is_mapped(tensor: Tensor) -> bool:
    """Whether torch.func maps or differentiates over it."""
    return not torch.compiler.is_compiling() and torch._C._functorch.is_functorch_wrapped_tensor(tensor)


def is_tracing() -> bool:
    """Whether a function with a backward of its own has no place: in a compiler's graph or under torch.func."""
    return torch.compiler.is_compiling() or torch._C._are_functorch_transforms_active()


def product_dtype(tensor: Tensor) -> torch.dtype:
    """The precision in which autocast multiplies it; as torch's own does, it leaves float64 alone."""
    device = tensor.device.type
    if tensor.dtype == torch.float64 or not torch.is_autocast_enabled(device):
        return tensor.dtype
    return torch.get_autocast_dtype(device)


def is_concrete(tensor: Tensor) -> bool:
    """On the CPU, where it costs no synchronisation, and not in a graph, a fake or a mapped tensor, which has none."""
    if tensor.device.type != "cpu" or torch.compiler.is_compiling():
        return False
    if type(tensor) not in (Tensor, torch.nn.Parameter):
        return False
    return not is_mapped(tensor)


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


CELLS = 2**24
"""Numbers that may be formed at a time."""


def in_query_blocks(
    score: Callable[[Tensor, Tensor], Tensor], queries: Float[Tensor, "... Q size"], keys: Float[Tensor, "... K size"]
) -> Float[Tensor, "... Q K"]:
    """`score` of every query against every key, where one pair takes as many numbers as the keys' size."""
    pairs = max(queries.shape[:-1].numel(), keys.shape[:-2].numel() * queries.shape[-2]) * keys.shape[-2]
    num_blocks = -(-pairs * keys.shape[-1] // CELLS)
    # a compiler forms them one by one anyway
    if num_blocks < 2 or queries.shape[-2] < 2 or torch.compiler.is_compiling():
        return score(queries, keys)
    blocks = queries.tensor_split(min(num_blocks, queries.shape[-2]), dim=-2)
    if torch.is_grad_enabled() and (queries.requires_grad or keys.requires_grad):
        return torch.cat([checkpoint(score, block, keys, use_reentrant=False) for block in blocks], dim=-2)
    return torch.cat([score(block, keys) for block in blocks], dim=-2)
