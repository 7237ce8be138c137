"""What custom autograd functions need: tracing checks, refusal of double backward, query blocks.

A custom autograd function cannot be used under a compiler or torch.func, and may read values of a tensor only
where that waits for no device. Torch's `once_differentiable` raises an error only if the incoming gradient itself needs
a gradient. After a sum it is a constant, and a second derivative would be wrong without an error; `differentiable_once`
raises one there too.
"""

from collections.abc import Callable
from functools import wraps
from typing import Any

import torch
from jaxtyping import Float
from torch import Tensor
from torch.autograd.function import once_differentiable
from torch.utils.checkpoint import checkpoint

from regard.contracts import torch_private


def is_mapped(tensor: Tensor) -> bool:
    """True if torch.func maps or differentiates over the tensor."""
    return not torch.compiler.is_compiling() and torch_private.is_wrapped(tensor)


def is_tracing() -> bool:
    """True under torch.compile or a torch.func transform, which custom autograd functions do not support."""
    return torch.compiler.is_compiling() or torch_private.transforms_active()


def product_dtype(tensor: Tensor) -> torch.dtype:
    """The dtype in which a matrix product of the tensor runs under autocast, which leaves float64 unchanged."""
    device = tensor.device.type
    if tensor.dtype == torch.float64 or not torch.is_autocast_enabled(device):
        return tensor.dtype
    return torch.get_autocast_dtype(device)


def is_concrete(tensor: Tensor) -> bool:
    """True if values may be read on the host: a CPU tensor (no synchronisation) that is neither traced nor mapped."""
    if tensor.device.type != "cpu" or torch.compiler.is_compiling():
        return False
    # by type and not isinstance: a subclass, such as a fake tensor, may have no values
    if type(tensor) not in (Tensor, torch.nn.Parameter):
        return False
    return not is_mapped(tensor)


LOOP = "The model's own loop can: leave out regard.fused.fuse, or run it inside regard.trace(model)."
"""The alternative to the backward pass of a fused loop."""


def differentiable_once(way_out: str) -> Callable[[Callable[..., Any]], Callable[..., Any]]:
    """Decorate the backward of an autograd function: an error, with the way out, if a graph of it is requested."""

    def decorate(backward: Callable[..., Any]) -> Callable[..., Any]:
        first = once_differentiable(backward)

        @wraps(backward)
        def guarded(ctx: Any, *grads: Any) -> Any:
            # grad mode is on here only with create_graph=True; once_differentiable turns it off inside `first`
            if torch.is_grad_enabled():
                raise RuntimeError(
                    f"a fused backward pass does not support double backward (create_graph=True). {way_out}"
                )
            return first(ctx, *grads)

        return guarded

    return decorate


CELLS = 2**24
"""Numbers that `in_query_blocks` forms at a time, at most."""


def in_query_blocks(
    score: Callable[[Tensor, Tensor], Tensor], queries: Float[Tensor, "... Q size"], keys: Float[Tensor, "... K size"]
) -> Float[Tensor, "... Q K"]:
    """`score` of every query and key, where each pair needs as many numbers as the keys' size, block by block.

    Memory is that of one block, in the backward pass too.
    """
    pairs = max(queries.shape[:-1].numel(), keys.shape[:-2].numel() * queries.shape[-2]) * keys.shape[-2]
    num_blocks = -(-pairs * keys.shape[-1] // CELLS)
    # a compiler fuses the expression and does not store the pairs; torch.func does not support checkpoints
    if num_blocks < 2 or queries.shape[-2] < 2 or is_tracing():
        return score(queries, keys)
    blocks = queries.tensor_split(min(num_blocks, queries.shape[-2]), dim=-2)
    if torch.is_grad_enabled() and (queries.requires_grad or keys.requires_grad):
        return torch.cat([checkpoint(score, block, keys, use_reentrant=False) for block in blocks], dim=-2)
    return torch.cat([score(block, keys) for block in blocks], dim=-2)
