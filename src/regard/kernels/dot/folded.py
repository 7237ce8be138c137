"""Dot attention whose last features are a key's bias, with gradients: forward by cuDNN, backward by our own kernels.

Sixteen more features cost cuDNN's forward pass a fifth of its time, but without a mask its backward pass takes half as
long again, and with more than 128 features four times as long. Ours adds the bias to the finished product. Under the
triangle cuDNN's own is the faster one.
"""

from collections.abc import Iterator
from typing import Any, cast

import torch
from jaxtyping import Float
from torch import Tensor

from regard.kernels.dot.folded_triton import keys_kernel, queries_kernel, sides_kernel
from regard.kernels.dot.read import DotRead
from regard.kernels.once import differentiable_once
from regard.kernels.product import is_plain_here
from regard.kernels.tiles import INSTALLED, launch

SIZES = (32, 64, 128)
"""What tiles are made for, of vectors and of values."""
FOLDED = 16
SIDE_ROWS = 32
TILES = {64: ((64, 64, 2, 4), (64, 64, 2, 4)), 128: ((64, 64, 2, 4), (128, 64, 3, 8))}
"""Queries and keys at a time, stages and warps of either kernel, by the larger of both sizes."""


def refusals(read: DotRead) -> Iterator[str]:
    """Every reason why this kernel cannot serve the read; asked for one, only one is looked for."""
    if not read.folded:
        yield "no features hold a bias"
    if not torch.is_grad_enabled() or not any(
        tensor.requires_grad for tensor in (read.queries, read.keys, read.values)
    ):
        yield "nobody asks for gradients"
    if not is_served_device(read.queries):
        yield f"it needs Triton and cuDNN's attention on a Hopper GPU or newer, here is {read.queries.device}"
    if read.queries.dtype not in (torch.bfloat16, torch.float16):
        yield f"it is for half precision, not {read.queries.dtype}"
    if is_plain_here():
        yield "a compiler or torch.func reads along"
    if read.mask is not None:
        yield "it has no mask"
    sizes = (read.queries.shape[-1] - read.folded, read.values.shape[-1])
    if any(size not in SIZES for size in sizes) or read.folded not in (0, FOLDED):
        yield f"vectors and values have {sizes[0]} and {sizes[1]} dimensions, it knows {SIZES}"
    if read.dropout:
        yield f"it has no dropout, asked was {read.dropout}"
    if read.group_size > 1 or len({tensor.shape[:-2] for tensor in (read.queries, read.keys, read.values)}) > 1:
        yield "each row of queries has keys and values of its own there"
    if read.key_bias is not None or read.bias is not None:
        yield "there is another bias"


def is_served_device(tensor: Tensor) -> bool:
    """Whether both halves run there."""
    return (
        tensor.device.type == "cuda"
        and INSTALLED
        and torch.version.hip is None
        and torch.cuda.get_device_capability(tensor.device) >= (9, 0)
        and torch.backends.cuda.cudnn_sdp_enabled()
    )


def read_folded(read: DotRead) -> Float[Tensor, "... Q value"]:
    """Fused softmax attention."""
    leading = read.queries.shape[:-2]
    rows = (tensor.reshape(1, -1, *tensor.shape[-2:]) for tensor in (read.queries, read.keys, read.values))
    context: Tensor = _Folded.apply(*rows, read.scale)
    return context.view(*leading, *context.shape[-2:])


class _Folded(torch.autograd.Function):
    """Rows of queries, keys and values, [1, rows, length, size], to contexts."""

    @staticmethod
    def forward(ctx: Any, queries: Tensor, keys: Tensor, values: Tensor, scale: float) -> Tensor:
        rows = tuple(tensor.contiguous() for tensor in (queries, keys, values))
        context, lse, *_ = torch.ops.aten._scaled_dot_product_cudnn_attention(
            *rows, None, True, 0.0, False, False, scale=scale
        )
        context = context.contiguous()
        ctx.save_for_backward(*rows, context, lse)
        ctx.scale = scale
        return cast(Tensor, context)

    @staticmethod
    @differentiable_once
    def backward(ctx: Any, grad: Tensor) -> tuple[Tensor | None, ...]:
        *rows, context, lse = ctx.saved_tensors
        with torch.cuda.device_of(grad):
            return *gradients(tuple(rows), context, lse.reshape(-1), grad.contiguous(), scale=ctx.scale), None


def gradients(
    rows: tuple[Tensor, ...], context: Tensor, lse: Tensor, grad: Tensor, *, scale: float
) -> tuple[Tensor, Tensor, Tensor]:
    """Of queries, keys and values, all of them contiguous."""
    queries, keys, values = rows
    counts = [side.shape[:-1].numel() for side in (queries, keys)]
    lengths = queries.shape[-2], keys.shape[-2]
    sizes = {"D": queries.shape[-1] - FOLDED, "S": queries.shape[-1], "V": values.shape[-1]}
    alignments = [tensor.data_ptr() % 16 for tensor in (*rows, context, lse, grad)]
    kind = (queries.device, queries.dtype, *lengths, *sizes.values(), *alignments)
    delta, most, bias = (lse.new_empty(count) for count in (counts[0], *counts))
    launch(
        sides_kernel, (-(-max(counts) // SIDE_ROWS), 1, 1),
        (grad, context, lse, keys, delta, most, bias, *counts, scale), sizes | {"ROWS": SIDE_ROWS},
        kind=(kind, *counts),
    )  # fmt: skip
    made = torch.empty_like(queries), torch.empty_like(keys), torch.empty_like(values)
    by_keys, by_queries = TILES[max(sizes["D"], sizes["V"], min(TILES))]
    for kernel, outs, (block_q, block_k, stages, warps) in (
        (keys_kernel, made[1:], by_keys),
        (queries_kernel, made[:1], by_queries),
    ):
        blocks = -(-lengths[1] // block_k) if kernel is keys_kernel else -(-lengths[0] // block_q)
        is_even = lengths[0] % block_q == 0 and lengths[1] % block_k == 0
        launch(
            kernel, (blocks * (counts[0] // lengths[0]), 1, 1),
            (*rows, grad, most, delta, bias, *outs, *lengths, scale),
            {"EVEN": is_even, **sizes, "BLOCK_Q": block_q, "BLOCK_K": block_k, "STAGES": stages},
            kind=(kind, block_q, block_k), num_warps=warps,
        )  # fmt: skip
    return made
