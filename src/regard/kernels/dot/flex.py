"""Dot attention by FlexAttention: CUDA, long texts, a mask that is a rule over positions.

Blocks of the score matrix without an allowed pair are never computed. Dong et al. 2024. https://arxiv.org/abs/2412.05496

FlexAttention has no backward pass on the CPU.
"""

from collections.abc import Iterator
from dataclasses import dataclass
from functools import cache, lru_cache
from typing import Any

import torch
from jaxtyping import Float
from torch import Tensor
from torch.nn.attention.flex_attention import BlockMask, create_block_mask, flex_attention

from regard.contracts import Grid, Mask, torch_private
from regard.kernels.dot.reference import DotRequest, with_positive_scale
from regard.kernels.dot.sdpa import fold_key_bias, pad_size, to_four_dimensions
from regard.kernels.triton_support import HALF

WORTH_IT = 2**21
"""Query-key pairs per head from which skipping blocks is faster than a mask as a tensor."""
MAX_KERNELS = 256
"""Compiled kernels at most, one for each kind of mask, size and precision."""


def unsupported_reasons(request: DotRequest) -> Iterator[str]:
    """Every reason why this kernel cannot serve the request; an iterator, because one reason is often enough."""
    *leading, num_queries, num_keys = request.shape
    if request.queries.device.type != "cuda":
        yield f"FlexAttention has no backward on {request.queries.device.type}"
    if request.queries.dtype not in (torch.float32, *HALF):
        yield f"FlexAttention has no kernel for {request.queries.dtype}"
    if request.mask is None or request.is_plain_causal:
        yield "without a mask, or with the plain triangle, flash kernels are faster"
    elif not request.mask.structured:
        yield "the mask holds a boolean tensor; FlexAttention needs a rule over positions"
    # short masks: building the block mask costs more than it saves
    if num_queries * num_keys < WORTH_IT:
        yield f"{num_queries} x {num_keys} is short: below {WORTH_IT:,} pairs a mask as a tensor is as fast"
    if len(leading) > 2:
        yield f"there are {len(leading)} leading dimensions, FlexAttention has batch and heads"
    if request.dropout:
        yield f"FlexAttention has no dropout, and dropout is {request.dropout}"
    if request.bias is not None:
        yield "the bias differs from query to query"
    if max(request.queries.shape[-1], request.values.shape[-1]) > 256:
        yield "sizes over 256 do not fit its tiles"


def attend_flex(request: DotRequest) -> Float[Tensor, "... Q value"]:
    """Fused attention that skips the blocks that the mask forbids."""
    request = with_positive_scale(request)
    leading = request.shape[:-2]
    queries, keys = fold_key_bias(request)
    # its tiles need a size that is a multiple of 16, which the folded bias breaks
    size = -(-queries.shape[-1] // 16) * 16
    key_leading = leading if request.group_size == 1 else (*leading[:-1], leading[-1] // request.group_size)
    # in a graph the compiler fuses it; eager code calls a kernel compiled once
    run: Any = flex_attention if torch.compiler.is_compiling() else run_compiled
    context = run(
        to_four_dimensions(pad_size(queries, size), leading),
        to_four_dimensions(pad_size(keys, size), key_leading),
        to_four_dimensions(request.values, key_leading),
        block_mask=block_mask(request),
        scale=request.scale,
        enable_gqa=request.group_size > 1,
    )
    return context.reshape(*leading, *context.shape[-2:])


@cache
def compiled_flex() -> Any:
    """FlexAttention as a compiled kernel; uncompiled it would form the scores."""
    return torch.compile(flex_attention)


def run_compiled(*tensors: Tensor, **options: Any) -> Tensor:
    """Run the kernel for these shapes and this mask; compile it at the first call.

    Each kind of mask needs a kernel of its own. Past torch's usual limit of 8 kernels it would form the scores instead,
    without a warning.
    """
    with torch_private.recompile_limit(MAX_KERNELS):
        context: Tensor = compiled_flex()(*tensors, **options)
    return context


def block_mask(request: DotRequest) -> BlockMask:
    """The blocks that hold an allowed pair; cached, because building them costs more than the attention itself."""
    assert request.mask is not None
    extent = MaskExtent(request.shape, request.first_query, request.first_key, str(request.queries.device))
    if torch.compiler.is_compiling():
        return build_block_mask(request.mask, extent)
    # the versions of the mask's tensors are part of the key: lengths may be overwritten in place
    return cached_block_mask(request.mask, extent, tuple(map(torch_private.version_of, request.mask.tensors())))


@lru_cache(maxsize=32)
def cached_block_mask(mask: Mask, extent: "MaskExtent", versions: tuple[object, ...]) -> BlockMask:
    """The same mask object over the same positions has the same blocks."""
    return build_block_mask(mask, extent)


@dataclass(frozen=True)
class MaskExtent:
    """The positions over which a mask is evaluated, and the device."""

    shape: tuple[int, ...]
    first_query: int
    first_key: int
    device: str


def build_block_mask(mask: Mask, extent: MaskExtent) -> BlockMask:
    """Evaluate the mask's rule over all positions."""
    *leading, num_queries, num_keys = extent.shape
    rank = len(leading)

    def allowed(batch: Tensor, head: Tensor, query: Tensor, key: Tensor) -> Tensor:
        # FlexAttention always has both indices; the mask has only as many as there are leading dimensions
        rows = (batch, head)[2 - rank :]
        return mask.allowed(Grid(leading=rows, queries=query + extent.first_query, keys=key + extent.first_key))

    batch, heads = (*(1,) * (2 - rank), *leading)
    return create_block_mask(allowed, batch, heads, num_queries, num_keys, device=extent.device)
