"""Dot attention over packed rows, for CUDA: one program a row and head, the whole row in one tile.

    q  k  v        tokens of all rows end to end, (N, heads, size)
    row r, head h: S = scale q_r k_r^T,  P = softmax(S),  o_r = P v_r      all of it in registers

Sentences are short: flash kernels, built for long rows, walk over blocks that are mostly padding, and need the tokens
spread into a rectangle first. Here nothing is padded in memory. The backward pass keeps the inputs alone and forms S
once more: dS = P (dP - sum P dP).
"""

from collections.abc import Iterator
from dataclasses import dataclass
from typing import Any

import torch
from jaxtyping import Float
from torch import Tensor

from regard.contracts import PackedTokens
from regard.kernels.dot.packed_triton import backward_kernel, forward_kernel
from regard.kernels.triton_support import launch, serves, tile_size

LONGEST = {torch.bfloat16: 128, torch.float16: 128, torch.float32: 64}
"""Tokens a row may have, by type: all tiles of a program fit into one multiprocessor's memory."""
SIZES = (16, 32, 64, 128)


@dataclass(frozen=True, kw_only=True)
class PackedRequest:
    """Every row's queries read that row's keys; with `causal` those up to their own position."""

    queries: Float[Tensor, "N heads size"]
    keys: Float[Tensor, "M heads size"]
    values: Float[Tensor, "M heads size"]
    query_rows: PackedTokens
    key_rows: PackedTokens
    scale: float
    causal: bool


def packed_unsupported_reasons(heads: Float[Tensor, "N heads size"], rows: PackedTokens) -> Iterator[str]:
    """Every reason why this kernel cannot serve these queries, or these keys."""
    size = heads.shape[-1]
    if not serves(heads):
        yield "it is written in Triton, for CUDA"
    if size not in SIZES:
        yield f"heads of size {size} are none of {', '.join(map(str, SIZES))}"
    if heads.dtype not in LONGEST:
        yield f"{heads.dtype} is none of {', '.join(map(str, LONGEST))}"
    elif rows.max_seqlen > LONGEST[heads.dtype]:
        yield f"the longest row has {rows.max_seqlen} tokens, and a tile of {heads.dtype} holds {LONGEST[heads.dtype]}"


def attend_packed(read: PackedRequest) -> Float[Tensor, "N heads size"]:
    """The context of every query; zeros where its row has no keys."""
    context: Tensor = _read(
        read.queries,
        read.keys,
        read.values,
        read.query_rows.cu_seqlens,
        read.key_rows.cu_seqlens,
        [tile_size(read.query_rows.max_seqlen), tile_size(read.key_rows.max_seqlen)],
        read.scale,
        read.causal,
    )
    return context


@torch.library.custom_op("regard::attend_packed", mutates_args=())
def _read(  # noqa: PLR0917 - an operator
    queries: Tensor,
    keys: Tensor,
    values: Tensor,
    query_offsets: Tensor,
    key_offsets: Tensor,
    tiles: list[int],
    scale: float,
    causal: bool,
) -> Tensor:
    queries, keys, values = (tensor.contiguous() for tensor in (queries, keys, values))
    context = torch.empty_like(queries)
    run(forward_kernel, queries, keys, values, context, query_offsets, key_offsets, tiles, scale, causal)
    return context


@_read.register_fake
def _(queries: Tensor, *others: Any) -> Tensor:
    return torch.empty(queries.shape, dtype=queries.dtype, device=queries.device)


@torch.library.custom_op("regard::read_packed_backward", mutates_args=())
def _read_backward(  # noqa: PLR0917 - an operator
    grad: Tensor,
    queries: Tensor,
    keys: Tensor,
    values: Tensor,
    query_offsets: Tensor,
    key_offsets: Tensor,
    tiles: list[int],
    scale: float,
    causal: bool,
) -> list[Tensor]:
    given = tuple(tensor.contiguous() for tensor in (grad, queries, keys, values))
    grads = [torch.empty_like(tensor) for tensor in given[1:]]
    run(backward_kernel, *given, *grads, query_offsets, key_offsets, tiles, scale, causal)
    return grads


@_read_backward.register_fake
def _(grad: Tensor, queries: Tensor, keys: Tensor, values: Tensor, *others: Any) -> list[Tensor]:
    return [torch.empty(tensor.shape, dtype=tensor.dtype, device=tensor.device) for tensor in (queries, keys, values)]


def _save(ctx: Any, inputs: tuple[Any, ...], output: Tensor) -> None:
    ctx.save_for_backward(*inputs[:5])
    ctx.rest = inputs[5:]


def _backward(ctx: Any, grad: Tensor) -> tuple[Tensor | None, ...]:
    grads = _read_backward(grad, *ctx.saved_tensors, *ctx.rest)
    return (*grads, None, None, None, None, None)


_read.register_autograd(_backward, setup_context=_save)


def run(kernel: Any, *arguments: Any) -> None:
    """One program a row and head; tensors first, then tiles, scale and causal."""
    *tensors, tiles, scale, causal = arguments
    _, num_heads, size = tensors[0].shape
    num_rows = tensors[-1].shape[0] - 1
    alignments = [tensor.data_ptr() % 16 for tensor in tensors]
    with torch.cuda.device_of(tensors[0]):
        launch(
            kernel,
            (num_rows, num_heads, 1),
            (*tensors, scale, num_heads * size),
            {"SIZE": size, "QUERY_TILE": tiles[0], "KEY_TILE": tiles[1], "CAUSAL": causal},
            kind=(tensors[0].device, tensors[0].dtype, tensors[-1].dtype, num_heads, *alignments),
            num_warps=4 if max(tiles) <= 64 else 8,
        )
