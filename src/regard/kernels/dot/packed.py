"""Dot attention over packed sequences, for CUDA: one program per sequence and head, the whole sequence in one tile.

    q  k  v             tokens of all sequences end to end, (N, heads, size)
    sequence r, head h: S = scale q_r k_r^T,  P = softmax(S),  o_r = P v_r      all of it in registers

Sentences are short: flash kernels, built for long sequences, loop over blocks that are mostly padding, and need the
tokens in a padded rectangle first. Here nothing is padded in memory. The backward pass stores only the inputs and forms
S again: dS = P (dP - sum P dP).
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

MAX_SEQLEN = {torch.bfloat16: 128, torch.float16: 128, torch.float32: 64}
"""Tokens of a sequence at most, by type: all tiles of a program must fit into one multiprocessor's memory."""
HEAD_SIZES = (16, 32, 64, 128)


@dataclass(frozen=True, kw_only=True)
class PackedRequest:
    """Queries of each sequence attend to the keys of the same sequence; with `causal` up to their own position."""

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
    if size not in HEAD_SIZES:
        yield f"heads of size {size} are none of {', '.join(map(str, HEAD_SIZES))}"
    if heads.dtype not in MAX_SEQLEN:
        yield f"{heads.dtype} is none of {', '.join(map(str, MAX_SEQLEN))}"
    elif rows.max_seqlen > MAX_SEQLEN[heads.dtype]:
        yield f"the longest row has {rows.max_seqlen} tokens, a tile of {heads.dtype} holds {MAX_SEQLEN[heads.dtype]}"


def attend_packed(request: PackedRequest) -> Float[Tensor, "N heads size"]:
    """The context of every query; zeros where its sequence has no keys."""
    # tensors and numbers instead of the request: operators take only these
    context: Tensor = _attend_packed(
        request.queries,
        request.keys,
        request.values,
        request.query_rows.cu_seqlens,
        request.key_rows.cu_seqlens,
        [tile_size(request.query_rows.max_seqlen), tile_size(request.key_rows.max_seqlen)],
        request.scale,
        request.causal,
    )
    return context


@torch.library.custom_op("regard::attend_packed", mutates_args=())
def _attend_packed(  # noqa: PLR0917 - an operator
    queries: Tensor,
    keys: Tensor,
    values: Tensor,
    query_offsets: Tensor,
    key_offsets: Tensor,
    tiles: list[int],
    scale: float,
    causal: bool,
) -> Tensor:
    # kernels compute offsets from strides that follow from the shape
    queries, keys, values = (tensor.contiguous() for tensor in (queries, keys, values))
    # written in full: every query belongs to one sequence
    context = torch.empty_like(queries)
    launch_per_sequence(
        forward_kernel, queries, keys, values, context, query_offsets, key_offsets, tiles, scale, causal
    )
    return context


@_attend_packed.register_fake
def _(queries: Tensor, *others: Any) -> Tensor:
    return torch.empty(queries.shape, dtype=queries.dtype, device=queries.device)


@torch.library.custom_op("regard::attend_packed_backward", mutates_args=())
def _attend_packed_backward(  # noqa: PLR0917 - an operator
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
    inputs = tuple(tensor.contiguous() for tensor in (grad, queries, keys, values))
    grads = [torch.empty_like(tensor) for tensor in inputs[1:]]
    launch_per_sequence(backward_kernel, *inputs, *grads, query_offsets, key_offsets, tiles, scale, causal)
    return grads


@_attend_packed_backward.register_fake
def _(grad: Tensor, queries: Tensor, keys: Tensor, values: Tensor, *others: Any) -> list[Tensor]:
    return [torch.empty(tensor.shape, dtype=tensor.dtype, device=tensor.device) for tensor in (queries, keys, values)]


def _save_for_backward(ctx: Any, inputs: tuple[Any, ...], output: Tensor) -> None:
    ctx.save_for_backward(*inputs[:5])
    ctx.options = inputs[5:]


def _backward(ctx: Any, grad: Tensor) -> tuple[Tensor | None, ...]:
    grads = _attend_packed_backward(grad, *ctx.saved_tensors, *ctx.options)
    return (*grads, None, None, None, None, None)


_attend_packed.register_autograd(_backward, setup_context=_save_for_backward)


def launch_per_sequence(kernel: Any, *arguments: Any) -> None:
    """One program per sequence and head; arguments are tensors, then tiles, scale and causal."""
    *tensors, tiles, scale, causal = arguments
    _, num_heads, size = tensors[0].shape
    # offsets have one entry more than there are sequences
    num_sequences = tensors[-1].shape[0] - 1
    # Triton compiles for the alignment of pointers, which differs between views
    alignments = [tensor.data_ptr() % 16 for tensor in tensors]
    with torch.cuda.device_of(tensors[0]):
        launch(
            kernel,
            (num_sequences, num_heads, 1),
            (*tensors, scale, num_heads * size),
            {"SIZE": size, "QUERY_TILE": tiles[0], "KEY_TILE": tiles[1], "CAUSAL": causal},
            kind=(tensors[0].device, tensors[0].dtype, tensors[-1].dtype, num_heads, *alignments),
            # a tile of 128 x 128 scores needs the registers of 8 warps
            num_warps=4 if max(tiles) <= 64 else 8,
        )
