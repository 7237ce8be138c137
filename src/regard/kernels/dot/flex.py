"""The dot kernel on FlexAttention: CUDA, long texts, a mask that is a rule over positions.

Blocks of the score matrix in which nothing is allowed are never computed. FlexAttention has no backward on the CPU.
"""

from collections.abc import Iterator
from dataclasses import dataclass
from functools import cache, lru_cache
from typing import Any

import torch
from jaxtyping import Float
from torch import Tensor
from torch.nn.attention.flex_attention import BlockMask, create_block_mask, flex_attention

from regard.contracts import Grid, Mask
from regard.kernels.dot.reference import DotRequest
from regard.kernels.dot.sdpa import fold_key_bias, four_dimensional, widened
from regard.kernels.triton_support import HALF

WORTH_IT = 2**21
"""Query-key pairs per head from which skipping blocks beats a mask written out."""

KERNELS = 256
"""How many kernels may be kept, one for each kind of mask, size and precision."""


def unsupported_reasons(read: DotRequest) -> Iterator[str]:
    """Every reason why this kernel cannot serve the read; asked for one, only one is looked for."""
    *leading, num_queries, num_keys = read.shape
    if read.queries.device.type != "cuda":
        yield f"FlexAttention has no backward on {read.queries.device.type}"
    if read.queries.dtype not in (torch.float32, *HALF):
        yield f"FlexAttention has no kernel for {read.queries.dtype}"
    if read.mask is None or read.is_plain_causal:
        yield "no mask, or the plain triangle: flash is faster"
    elif not read.mask.structured:
        yield "the mask holds a boolean tensor; FlexAttention wants a rule over positions"
    if num_queries * num_keys < WORTH_IT:
        yield f"{num_queries} x {num_keys} is short: below {WORTH_IT:,} pairs a written mask is as fast"
    if len(leading) > 2:
        yield f"there are {len(leading)} leading dimensions, FlexAttention has batch and heads"
    if read.dropout:
        yield f"FlexAttention has no dropout, asked was {read.dropout}"
    if read.bias is not None:
        yield "the bias differs from query to query"
    if max(read.queries.shape[-1], read.values.shape[-1]) > 256:
        yield "sizes over 256 do not fit its tiles"


def attend_flex(read: DotRequest) -> Float[Tensor, "... Q value"]:
    """Fused attention that skips what the mask forbids."""
    leading = read.shape[:-2]
    queries, keys = fold_key_bias(read)
    size = -(-queries.shape[-1] // 16) * 16
    key_leading = leading if read.group_size == 1 else (*leading[:-1], leading[-1] // read.group_size)
    run: Any = flex_attention if torch.compiler.is_compiling() else run_compiled
    context = run(
        four_dimensional(widened(queries, size), leading),
        four_dimensional(widened(keys, size), key_leading),
        four_dimensional(read.values, key_leading),
        block_mask=block_mask(read),
        scale=read.scale,
        enable_gqa=read.group_size > 1,
    )
    return context.reshape(*leading, *context.shape[-2:])


@cache
def compiled_flex() -> Any:
    """FlexAttention as one kernel; uncompiled it would form the scores."""
    return torch.compile(flex_attention)


def run_compiled(*tensors: Tensor, **options: Any) -> Tensor:
    """The kernel for these shapes and this mask.

    Each kind of mask is a kernel of its own. Past torch's usual limit of 8 it would quietly form the scores instead.
    """
    with torch._dynamo.config.patch(recompile_limit=KERNELS, accumulated_recompile_limit=4 * KERNELS):
        found: Tensor = compiled_flex()(*tensors, **options)
    return found


def block_mask(read: DotRequest) -> BlockMask:
    """Which blocks hold anything; the last few are kept, since making one costs more than a read."""
    assert read.mask is not None
    asked = Asked(read.shape, read.first_query, read.first_key, str(read.queries.device))
    if torch.compiler.is_compiling():
        return make_block_mask(read.mask, asked)
    # lengths that were written over are other lengths
    return kept_block_mask(read.mask, asked, tuple(tensor._version for tensor in read.mask.tensors()))


@lru_cache(maxsize=32)
def kept_block_mask(mask: Mask, asked: "Asked", versions: tuple[int, ...]) -> BlockMask:
    """The same mask object over the same positions has the same blocks."""
    return make_block_mask(mask, asked)


@dataclass(frozen=True)
class Asked:
    """Where a mask is asked."""

    shape: tuple[int, ...]
    first_query: int
    first_key: int
    device: str


def make_block_mask(mask: Mask, asked: Asked) -> BlockMask:
    """The mask's rule, asked index by index."""
    *leading, num_queries, num_keys = asked.shape
    rank = len(leading)

    def allowed(batch: Tensor, head: Tensor, query: Tensor, key: Tensor) -> Tensor:
        rows = (batch, head)[2 - rank :]
        return mask.allowed(Grid(leading=rows, queries=query + asked.first_query, keys=key + asked.first_key))

    batch, heads = (*(1,) * (2 - rank), *leading)
    return create_block_mask(allowed, batch, heads, num_queries, num_keys, device=asked.device)
