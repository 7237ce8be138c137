"""Dot attention on the CPU in blocks of queries, for a structured mask over a long text.

The mask gives the span of keys that the queries of a block may attend to, and only those keys are used: a window costs
linear time. Memory is that of one block; the backward pass computes a block again instead of storing its mask.
"""

from collections.abc import Iterator
from dataclasses import replace

import torch
from jaxtyping import Float
from torch import Tensor
from torch.utils.checkpoint import checkpoint

from regard.kernels.autograd import is_concrete
from regard.kernels.dot.reference import DotRequest, attend_plain
from regard.kernels.dot.sdpa import attend_sdpa
from regard.kernels.dot.sdpa import unsupported_reasons as sdpa_unsupported_reasons

BLOCK = 512
"""Queries per block."""
WORTH_IT = 2**24
"""Booleans of the mask from which blocks pay off: below, one call with the mask as a tensor is as fast."""


def unsupported_reasons(request: DotRequest) -> Iterator[str]:
    """Every reason why this kernel cannot serve the request; an iterator, because one reason is often enough."""
    yield from sdpa_unsupported_reasons(request)
    if request.queries.device.type != "cpu":
        yield f"blocks of queries are for the CPU; the queries are on {request.queries.device}"
    if request.mask is None or request.is_plain_causal:
        yield "SDPA needs no mask tensor for it"
    elif not request.mask.structured:
        yield "the mask holds a boolean tensor, so its memory is spent already"
    elif request.mask_size < WORTH_IT:
        yield f"the mask is small: {request.mask_size} entries, blocks pay off from {WORTH_IT:,}"
    if request.queries.shape[-2] <= BLOCK:
        yield f"{request.queries.shape[-2]} queries are one block"
    if torch.compiler.is_compiling():
        yield "under torch.compile the loop over blocks would be unrolled"


def attend_blocked(request: DotRequest) -> Float[Tensor, "... Q value"]:
    """Attend block by block, each to the span of keys of its mask."""
    blocks = [
        slice_request(request, slice(start, min(start + BLOCK, request.queries.shape[-2])))
        for start in range(0, request.queries.shape[-2], BLOCK)
    ]
    # torch.func has its own differentiation, which does not support checkpoints
    needs_checkpoint = is_concrete(request.queries) and torch.is_grad_enabled()
    tensors = (request.queries, request.keys, request.values)
    needs_checkpoint = needs_checkpoint and any(tensor.requires_grad for tensor in tensors)
    parts = [
        checkpoint(attend_block, block, use_reentrant=False) if needs_checkpoint else attend_block(block)
        for block in blocks
    ]
    return torch.cat(parts, dim=-2)


def slice_request(request: DotRequest, part: slice) -> DotRequest:
    """The request of some queries, with the keys in their mask's span."""
    assert request.mask is not None
    # the mask counts positions, which begin at first_query and first_key; tensors are indexed from 0
    first = request.first_query + part.start
    # positions of the first and the last query of the block, inclusive
    low, high = request.mask.span(first, first + part.stop - part.start - 1)
    num_keys = request.keys.shape[-2]
    # clamped to the keys that exist; a span outside them is empty
    start = 0 if low is None else min(max(low - request.first_key, 0), num_keys)
    stop = num_keys if high is None else max(min(high - request.first_key, num_keys), start)
    bias = request.bias
    if bias is not None:
        # a bias that broadcasts over the queries is not sliced
        bias = bias[..., part if bias.shape[-2] > 1 else slice(None), start:stop]
    key_bias = None if request.key_bias is None else request.key_bias[..., start:stop]
    return replace(
        request,
        queries=request.queries[..., part, :],
        keys=request.keys[..., start:stop, :],
        values=request.values[..., start:stop, :],
        key_bias=key_bias,
        bias=bias,
        first_query=first,
        first_key=request.first_key + start,
    )


def attend_block(block: DotRequest) -> Float[Tensor, "... Q value"]:
    """Attention of one block; the formula serves an empty span, which gives zeros and which SDPA does not take."""
    return attend_sdpa(block) if block.keys.shape[-2] else attend_plain(block)
