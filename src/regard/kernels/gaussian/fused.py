"""Gaussian attention with gradients on CUDA: forward by cuDNN over features, backward by our own kernels.

Sixteen more features than dimensions cost cuDNN's forward pass a fifth of its time, but its backward pass takes half as
long again, and with more than 128 features and no mask four times as long. Ours adds the bias that they hold to the
finished product, at the points' own size.
"""

from collections.abc import Iterator
from typing import Any, cast

import torch
from jaxtyping import Float
from torch import Tensor

from regard.kernels.autograd import differentiable_once, is_tracing
from regard.kernels.gaussian.features import STEP, feature_refusals, gaussian_features
from regard.kernels.gaussian.fused_triton import keys_kernel, queries_kernel, sides_kernel
from regard.kernels.gaussian.reference import GaussianRequest
from regard.kernels.triton_support import launch, serves

SIZES = (32, 64, 128)
"""What tiles are made for, of points and of values."""
SIDE_ROWS = 32
TILES = {64: ((64, 64, 3, 4), (64, 64, 2, 4)), 128: ((64, 64, 2, 4), (128, 64, 3, 8))}
"""Queries and keys at a time, stages and warps of either kernel, by the larger of both sizes."""


def unsupported_reasons(read: GaussianRequest) -> Iterator[str]:
    """Every reason why this kernel cannot serve the read; asked for one, only one is looked for."""
    sides = (read.queries, read.keys, read.values)
    if not torch.is_grad_enabled() or not any(tensor.requires_grad for tensor in (*sides, read.width)):
        yield "nobody asks for gradients"
    yield from feature_refusals(read.queries, read.keys, read.width)
    if serves(read.queries) and not is_hopper(read.queries):
        yield "it needs cuDNN's attention on a Hopper GPU or newer"
    if read.values.dtype != read.queries.dtype:
        yield f"the values are {read.values.dtype}, the queries {read.queries.dtype}"
    if is_tracing():
        yield "a compiler or torch.func reads along"
    if read.mask is not None and not read.is_triangle:
        yield "of masks it knows the plain triangle"
    sizes = (read.queries.shape[-1], read.values.shape[-1])
    if any(size not in SIZES for size in sizes):
        yield f"points and values have {sizes[0]} and {sizes[1]} dimensions, it knows {', '.join(map(str, SIZES))}"
    if read.dropout:
        yield f"it has no dropout, asked was {read.dropout}"
    if read.group_size > 1 or read.values.shape[:-2] != read.keys.shape[:-2]:
        yield "each row of queries must have values of its own"


def is_hopper(tensor: Tensor) -> bool:
    """Whether cuDNN reads keys and values of two sizes there."""
    return torch.cuda.get_device_capability(tensor.device) >= (9, 0) and torch.backends.cuda.cudnn_sdp_enabled()


def attend_gaussian(read: GaussianRequest) -> Float[Tensor, "... Q value"]:
    """Fused softmax attention."""
    leading = read.queries.shape[:-2]
    sides = (*gaussian_features(read.queries, read.keys, read.width), read.values)
    rows = (tensor.reshape(1, -1, *tensor.shape[-2:]) for tensor in sides)
    context: Tensor = _Folded.apply(*rows, read.is_triangle)
    return context.view(*leading, *context.shape[-2:])


class _Folded(torch.autograd.Function):
    """Rows of features and values, [1, rows, length, size], to contexts; nobody asks what the ones are due."""

    @staticmethod
    def forward(ctx: Any, queries: Tensor, keys: Tensor, values: Tensor, is_causal: bool) -> Tensor:
        rows = tuple(tensor.contiguous() for tensor in (queries, keys, values))
        context, lse, *_ = torch.ops.aten._scaled_dot_product_cudnn_attention(
            *rows, None, True, 0.0, is_causal, False, scale=1.0
        )
        context = context.contiguous()
        ctx.save_for_backward(*rows, context, lse)
        ctx.is_causal = is_causal
        return cast(Tensor, context)

    @staticmethod
    @differentiable_once("With return_weights=True attention forms its weights, and can.")
    def backward(ctx: Any, grad: Tensor) -> tuple[Tensor | None, ...]:
        *rows, context, lse = ctx.saved_tensors
        with torch.cuda.device_of(grad):
            found = gradients(tuple(rows), context, lse.reshape(-1), grad.contiguous(), is_causal=ctx.is_causal)
        return *found, None


def gradients(
    rows: tuple[Tensor, ...], context: Tensor, lse: Tensor, grad: Tensor, *, is_causal: bool
) -> tuple[Tensor, Tensor, Tensor]:
    """Of the queries' features, the keys' and of values, all of them contiguous."""
    queries, keys, values = rows
    counts = [side.shape[:-1].numel() for side in (queries, keys)]
    lengths = queries.shape[-2], keys.shape[-2]
    sizes = {"D": queries.shape[-1] - STEP, "S": queries.shape[-1], "V": values.shape[-1]}
    alignments = [tensor.data_ptr() % 16 for tensor in (*rows, context, lse, grad)]
    kind = (queries.device, queries.dtype, *lengths, *alignments)
    delta, most, bias = (lse.new_empty(count) for count in (counts[0], *counts))
    launch(
        sides_kernel, (-(-max(counts) // SIDE_ROWS), 1, 1),
        (grad, context, lse, keys, delta, most, bias, *counts), sizes | {"ROWS": SIDE_ROWS}, kind=(kind, *counts),
    )  # fmt: skip
    made = torch.empty_like(queries), torch.empty_like(keys), torch.empty_like(values)
    by_keys, by_queries = TILES[max(sizes["D"], sizes["V"], min(TILES))]
    for kernel, outs, tiles in ((keys_kernel, made[1:], by_keys), (queries_kernel, made[:1], by_queries)):
        block_q, block_k, stages, num_warps = tiles
        blocks = -(-lengths[1] // block_k) if kernel is keys_kernel else -(-lengths[0] // block_q)
        is_even = lengths[0] % block_q == 0 and lengths[1] % block_k == 0
        launch(
            kernel, (blocks * (counts[0] // lengths[0]), 1, 1),
            (*rows, grad, most, delta, bias, *outs, *lengths),
            {"CAUSAL": is_causal, "EVEN": is_even, **sizes, "BLOCK_Q": block_q, "BLOCK_K": block_k, "STAGES": stages},
            kind=kind, num_warps=num_warps,
        )  # fmt: skip
    return made
