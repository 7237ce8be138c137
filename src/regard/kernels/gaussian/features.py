"""Gaussian scores as one dot product of half precision, on CUDA: the square multiplied out in one pass.

    -1/2 |w (q - k)|^2 + 1/2 |w q|^2 = [w q, 1, 1] . [w k, b, b'],   b + b' = -1/2 |w k|^2

The bias per key travels as two numbers, the second what the first lost by rounding. Points are counted from an origin
near their row's keys, since squares cancel; only rounding depends on it. In float16 a point may lie 361 widths from
there: what lies further has the bias of that.
"""

from collections.abc import Hashable, Iterator
from typing import Any

import torch
from jaxtyping import Float
from torch import Tensor

from regard.kernels.autograd import is_mapped
from regard.kernels.gaussian.features_triton import backward_kernel, features_kernel
from regard.kernels.triton_support import HALF, launch, power_of_two, serves

IN_HAND = 4096
"""Numbers that a program has at once."""
STEP = 16
"""What features are a multiple of: attention kernels like it."""
LARGEST = 256


def feature_refusals(
    queries: Float[Tensor, "... Q size"], keys: Float[Tensor, "... K size"], width: Float[Tensor, "..."]
) -> Iterator[str]:
    """Every reason why these points cannot go this way."""
    if not serves(queries):
        yield f"it is written in Triton, for CUDA, here is {queries.device}"
    if width.device != queries.device:
        yield f"the width is on {width.device}, the points on {queries.device}"
    if is_mapped(queries) or is_mapped(keys) or is_mapped(width):
        yield "torch.func maps over it"
    if queries.dtype not in HALF or keys.dtype != queries.dtype:
        yield f"it is for half precision, here are {queries.dtype} and {keys.dtype}"
    if queries.numel() == 0 or keys.numel() == 0:
        yield "there is nothing to read"
    if queries.shape[-1] + 2 > LARGEST:
        yield f"points of {queries.shape[-1]} dimensions are larger than its tiles"
    if queries.shape[:-2] != keys.shape[:-2]:
        yield "each row of queries must have keys of its own, to know their origin"


def gaussian_features(
    queries: Float[Tensor, "*B Q size"], keys: Float[Tensor, "*B K size"], width: Float[Tensor, "..."]
) -> tuple[Float[Tensor, "*B Q wide"], Float[Tensor, "*B K wide"]]:
    """Both sides' points, side by side with what makes up the square."""
    made: tuple[Tensor, Tensor] = _features(queries.contiguous(), keys.contiguous(), width.contiguous())
    return made


def wide_size(size: int) -> int:
    """How many features so many dimensions make."""
    return -(-(size + 2) // STEP) * STEP


@torch.library.custom_op("regard::gaussian_features", mutates_args=())
def _features(queries: Tensor, keys: Tensor, width: Tensor) -> tuple[Tensor, Tensor]:
    made = empty_features(queries, keys)
    sizes, grid = sizes_of(queries, keys)
    with torch.cuda.device_of(queries):
        launch(
            features_kernel,
            (grid, 1, 1),
            (queries, keys, width, *made, *sizes, *bounds(queries)),
            constants(queries, width) | {"REST": power_of_two(made[0].shape[-1] - queries.shape[-1])},
            kind=kind_of(queries, keys, width),
        )
    return made


@_features.register_fake
def empty_features(queries: Tensor, keys: Tensor, width: Tensor | None = None) -> tuple[Tensor, Tensor]:
    """As large as the features."""
    wide = wide_size(queries.shape[-1])
    return queries.new_empty(*queries.shape[:-1], wide), keys.new_empty(*keys.shape[:-1], wide)


@torch.library.custom_op("regard::gaussian_features_backward", mutates_args=())
def _features_backward(  # noqa: PLR0917 - operators take arguments by position
    query_grad: Tensor, key_grad: Tensor, queries: Tensor, keys: Tensor, width: Tensor, needs_width: bool
) -> tuple[Tensor, Tensor, Tensor]:
    sizes, grid = sizes_of(queries, keys)
    sums = queries.new_empty(grid if needs_width else 0, queries.shape[-1], dtype=torch.float32)
    made = torch.empty_like(queries), torch.empty_like(keys)
    grads = query_grad.contiguous(), key_grad.contiguous()
    with torch.cuda.device_of(queries):
        launch(
            backward_kernel,
            (grid, 1, 1),
            (*grads, queries, keys, width, *made, sums, *sizes, *bounds(queries)),
            {"WIDTH_GRAD": needs_width, **constants(queries, width)},
            kind=(*(grad.data_ptr() % 16 for grad in grads), kind_of(queries, keys, width)),
        )
    return *made, sums.sum(0) if width.ndim else sums.sum()


@_features_backward.register_fake
def _(  # noqa: PLR0917
    query_grad: Tensor, key_grad: Tensor, queries: Tensor, keys: Tensor, width: Tensor, needs_width: bool
) -> tuple[Tensor, Tensor, Tensor]:
    return torch.empty_like(queries), torch.empty_like(keys), torch.empty_like(width, dtype=torch.float32)


def _save(ctx: Any, inputs: tuple[Any, ...], output: tuple[Tensor, Tensor]) -> None:
    ctx.save_for_backward(*inputs)


def _backward(ctx: Any, query_grad: Tensor, key_grad: Tensor) -> tuple[Tensor | None, ...]:
    queries, keys, width = ctx.saved_tensors
    needs_width = ctx.needs_input_grad[2]
    found = _features_backward(query_grad, key_grad, queries, keys, width, needs_width)
    return found[0], found[1], found[2].to(width.dtype) if needs_width else None


_features.register_autograd(_backward, setup_context=_save)


def sizes_of(queries: Tensor, keys: Tensor) -> tuple[tuple[int, int], int]:
    """How many queries and keys a row has, and how many programs all rows take."""
    sizes = queries.shape[-2], keys.shape[-2]
    return sizes, queries.shape[:-2].numel() * sum(-(-size // rows_of(queries)) for size in sizes)


def rows_of(points: Tensor) -> int:
    """How many points a program has."""
    return max(IN_HAND // power_of_two(points.shape[-1]), 8)


def kind_of(queries: Tensor, keys: Tensor, width: Tensor) -> Hashable:
    """What kernels are compiled for, beyond their constants."""
    tensors = (queries, keys, width)
    return (queries.device, *((tensor.shape[-2:], tensor.dtype, tensor.data_ptr() % 16) for tensor in tensors))


def bounds(points: Tensor) -> tuple[float, float]:
    """How far off a point may be, and how far down its bias: what lies further is put there."""
    finite = torch.finfo(points.dtype)
    return min((torch.finfo(torch.float32).max / (4 * points.shape[-1])) ** 0.5, finite.max), finite.min


def constants(points: Tensor, width: Tensor) -> dict[str, Any]:
    """What the kernels are compiled for."""
    size = points.shape[-1]
    names = {"WIDTHS": width.ndim > 0, "D": size, "S": wide_size(size), "ROWS": rows_of(points)}
    return names | {"BLOCK": power_of_two(size)}
