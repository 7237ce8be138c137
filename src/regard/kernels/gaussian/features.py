"""Gaussian scores as one dot product in half precision, on CUDA: points and their squares in one pass.

    -1/2 |w (q - k)|^2 + 1/2 |w q|^2 = [w q, 1, 1] . [w k, b, b'],   b + b' = -1/2 |w k|^2

The bias of a key is stored as two numbers; the second is what the first lost by rounding. Points are measured from an
origin near the keys of their row, since large squares cancel; only rounding depends on it. In float16 a point can be at
most 361 widths from the origin: the bias of a point further away is that of one at this distance.
"""

from collections.abc import Hashable, Iterator
from typing import Any

import torch
from jaxtyping import Float
from torch import Tensor

from regard.contracts import Lowered, LoweredSquare
from regard.kernels.autograd import is_mapped
from regard.kernels.gaussian.features_triton import backward_kernel, features_kernel
from regard.kernels.gaussian.reference import multiply_out
from regard.kernels.triton_support import HALF, launch, power_of_two, serves

TILE_NUMBERS = 4096
"""Numbers in the tile of one program."""
STEP = 16
"""The number of features is a multiple of this, which attention kernels need to be fast."""
MAX_FEATURES = 256


def dot_product_form(square: LoweredSquare) -> Lowered | str:
    """The same scores as a dot product, by features where they are supported; or the reason against it."""
    if any(feature_refusals(square.queries, square.keys, square.width)):
        return multiply_out(square)
    queries, keys = gaussian_features(square.queries, square.keys, square.width)
    return Lowered(queries=queries, keys=keys, drops_row_constant=True)


def feature_refusals(
    queries: Float[Tensor, "... Q size"], keys: Float[Tensor, "... K size"], width: Float[Tensor, "..."]
) -> Iterator[str]:
    """Every reason why these points have no features."""
    if not serves(queries):
        yield f"the kernel is written in Triton, for CUDA, and the points are on {queries.device}"
    if width.device != queries.device:
        yield f"the width is on {width.device}, the points on {queries.device}"
    if is_mapped(queries) or is_mapped(keys) or is_mapped(width):
        yield "torch.func maps over the points"
    if queries.dtype not in HALF or keys.dtype != queries.dtype:
        yield f"the kernel supports half precision, and the points are {queries.dtype} and {keys.dtype}"
    if queries.numel() == 0 or keys.numel() == 0:
        yield "there are no points"
    if queries.shape[-1] + 2 > MAX_FEATURES:
        yield f"points of {queries.shape[-1]} dimensions are larger than the kernel's tiles"
    if queries.shape[:-2] != keys.shape[:-2]:
        yield "every row of queries needs keys of its own, which its origin is computed from"


def gaussian_features(
    queries: Float[Tensor, "*B Q size"], keys: Float[Tensor, "*B K size"], width: Float[Tensor, "..."]
) -> tuple[Float[Tensor, "*B Q features"], Float[Tensor, "*B K features"]]:
    """Features of queries and keys, whose product is the score."""
    features: tuple[Tensor, Tensor] = _features(queries.contiguous(), keys.contiguous(), width.contiguous())
    return features


def num_features(size: int) -> int:
    """Features of points of this size."""
    return -(-(size + 2) // STEP) * STEP


@torch.library.custom_op("regard::gaussian_features", mutates_args=())
def _features(queries: Tensor, keys: Tensor, width: Tensor) -> tuple[Tensor, Tensor]:
    features = empty_features(queries, keys)
    lengths, num_programs = programs_of(queries, keys)
    with torch.cuda.device_of(queries):
        launch(
            features_kernel,
            (num_programs, 1, 1),
            (queries, keys, width, *features, *lengths, *bounds(queries)),
            constants(queries, width) | {"TAIL": power_of_two(features[0].shape[-1] - queries.shape[-1])},
            kind=kind_of(queries, keys, width),
        )
    return features


@_features.register_fake
def empty_features(queries: Tensor, keys: Tensor, width: Tensor | None = None) -> tuple[Tensor, Tensor]:
    """Uninitialised features."""
    count = num_features(queries.shape[-1])
    return queries.new_empty(*queries.shape[:-1], count), keys.new_empty(*keys.shape[:-1], count)


@torch.library.custom_op("regard::gaussian_features_backward", mutates_args=())
def _features_backward(  # noqa: PLR0917 - operators take arguments by position
    query_grad: Tensor, key_grad: Tensor, queries: Tensor, keys: Tensor, width: Tensor, needs_width: bool
) -> tuple[Tensor, Tensor, Tensor]:
    lengths, num_programs = programs_of(queries, keys)
    # every program writes its own part of the width's gradient: a sum of parts has a fixed order, atomics have not
    width_parts = queries.new_empty(num_programs if needs_width else 0, queries.shape[-1], dtype=torch.float32)
    point_grads = torch.empty_like(queries), torch.empty_like(keys)
    feature_grads = query_grad.contiguous(), key_grad.contiguous()
    with torch.cuda.device_of(queries):
        launch(
            backward_kernel,
            (num_programs, 1, 1),
            (*feature_grads, queries, keys, width, *point_grads, width_parts, *lengths, *bounds(queries)),
            {"WIDTH_GRAD": needs_width, **constants(queries, width)},
            kind=(*(grad.data_ptr() % 16 for grad in feature_grads), kind_of(queries, keys, width)),
        )
    return *point_grads, width_parts.sum(0) if width.ndim else width_parts.sum()


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
    grads = _features_backward(query_grad, key_grad, queries, keys, width, needs_width)
    return grads[0], grads[1], grads[2].to(width.dtype) if needs_width else None


_features.register_autograd(_backward, setup_context=_save)


def programs_of(queries: Tensor, keys: Tensor) -> tuple[tuple[int, int], int]:
    """Queries and keys in a row, and the number of programs for all rows."""
    lengths = queries.shape[-2], keys.shape[-2]
    return lengths, queries.shape[:-2].numel() * sum(-(-length // tile_rows(queries)) for length in lengths)


def tile_rows(points: Tensor) -> int:
    """Points of one program."""
    return max(TILE_NUMBERS // power_of_two(points.shape[-1]), 8)


def kind_of(queries: Tensor, keys: Tensor, width: Tensor) -> Hashable:
    """What the kernels are compiled for beside their constants: device, sizes, types, alignment."""
    tensors = (queries, keys, width)
    return (queries.device, *((tensor.shape[-2:], tensor.dtype, tensor.data_ptr() % 16) for tensor in tensors))


def bounds(points: Tensor) -> tuple[float, float]:
    """The largest coordinate and the lowest bias, to which larger and lower ones are clamped."""
    finite = torch.finfo(points.dtype)
    return min((torch.finfo(torch.float32).max / (4 * points.shape[-1])) ** 0.5, finite.max), finite.min


def constants(points: Tensor, width: Tensor) -> dict[str, Any]:
    """The constants that both kernels are compiled for."""
    size = points.shape[-1]
    names = {"WIDTHS": width.ndim > 0, "D": size, "S": num_features(size), "ROWS": tile_rows(points)}
    return names | {"BLOCK": power_of_two(size)}
