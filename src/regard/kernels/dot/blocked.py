"""The dot kernel in blocks of queries: a structured mask over a long text without ever writing the mask out.

Each block asks the mask how far its queries see and reads only those keys, so a window costs linear time, and memory is
that of one block, backward too (a block is computed again there).
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
from regard.kernels.dot.sdpa import unsupported_reasons as sdpa_refusals

BLOCK = 512
WORTH_IT = 2**24
"""Booleans in the mask from which blocks pay: below, one call with the mask written out is as fast."""


def unsupported_reasons(read: DotRequest) -> Iterator[str]:
    """Every reason why this kernel cannot serve the read; asked for one, only one is looked for."""
    yield from sdpa_refusals(read)
    if read.queries.device.type != "cpu":
        yield f"blocks of queries are for the CPU; the queries are on {read.queries.device}"
    if read.mask is None or read.is_plain_causal:
        yield "no mask has to be written out"
    elif not read.mask.structured:
        yield "the mask holds a boolean tensor, which is written out already"
    elif read.written_size < WORTH_IT:
        yield f"the mask is small: {read.written_size} of {WORTH_IT:,} entries from which blocks pay"
    if read.queries.shape[-2] <= BLOCK:
        yield f"{read.queries.shape[-2]} queries are one block"
    if torch.compiler.is_compiling():
        yield "torch.compile sees one graph, not a loop over blocks"


def attend_blocked(read: DotRequest) -> Float[Tensor, "... Q value"]:
    """Block after block of queries, each with the keys it can see."""
    blocks = [
        block_of(read, slice(start, min(start + BLOCK, read.queries.shape[-2])))
        for start in range(0, read.queries.shape[-2], BLOCK)
    ]
    # torch.func has its own backward, which cannot compute a block again
    again = is_concrete(read.queries) and torch.is_grad_enabled()
    again = again and any(tensor.requires_grad for tensor in (read.queries, read.keys, read.values))
    parts = [checkpoint(read_block, block, use_reentrant=False) if again else read_block(block) for block in blocks]
    return torch.cat(parts, dim=-2)


def block_of(read: DotRequest, part: slice) -> DotRequest:
    """The read of some queries, narrowed to the keys in their mask's span."""
    assert read.mask is not None
    first = read.first_query + part.start
    low, high = read.mask.span(first, first + part.stop - part.start - 1)
    num_keys = read.keys.shape[-2]
    start = 0 if low is None else min(max(low - read.first_key, 0), num_keys)
    stop = num_keys if high is None else max(min(high - read.first_key, num_keys), start)
    bias = read.bias
    if bias is not None:
        bias = bias[..., part if bias.shape[-2] > 1 else slice(None), start:stop]
    key_bias = None if read.key_bias is None else read.key_bias[..., start:stop]
    return replace(
        read,
        queries=read.queries[..., part, :],
        keys=read.keys[..., start:stop, :],
        values=read.values[..., start:stop, :],
        key_bias=key_bias,
        bias=bias,
        first_query=first,
        first_key=read.first_key + start,
    )


def read_block(block: DotRequest) -> Float[Tensor, "... Q value"]:
    """One block; where its span is empty the formula says what reading nothing gives."""
    return attend_sdpa(block) if block.keys.shape[-2] else attend_plain(block)
