"""Gaussian scores as one dot product of half precision, on CUDA: the square multiplied out, in one pass over each side.

    -1/2 |w (q - k)|^2 + 1/2 |w q|^2 = [w q, 1, 1] . [w k, b, b'],   b + b' = -1/2 |w k|^2

The bias per key travels as two numbers, the second what the first lost by rounding. Points are counted from an origin
near the keys, since squares cancel.
"""

from typing import Any

import torch
from jaxtyping import Float
from torch import Tensor

from regard.kernels.gaussian.features_triton import backward_kernel, features_kernel
from regard.kernels.tiles import INSTALLED, power_of_two
from regard.kernels.values import is_mapped

HALF = (torch.bfloat16, torch.float16)
ROWS = 16
STEP = 16
"""What features are a multiple of: attention kernels like it."""
LARGEST = 256


def features_serve(points: Float[Tensor, "... L size"]) -> bool:
    """Whether these points can go this way."""
    on_device = points.device.type == "cuda" and torch.version.hip is None and INSTALLED and not is_mapped(points)
    return on_device and points.dtype in HALF and points.numel() > 0 and points.shape[-1] + 2 <= LARGEST


def gaussian_features(
    points: Float[Tensor, "... L size"],
    origin: Float[Tensor, "... 1 size"],
    width: Float[Tensor, "..."],
    *,
    is_key: bool,
) -> Float[Tensor, "... L wide"]:
    """The points of one side, side by side with what makes up the square."""
    origin = origin.expand(*points.shape[:-2], 1, points.shape[-1]).contiguous()
    made: Tensor = _features(points.contiguous(), origin, width, is_key)
    return made


def shape_of(points: Tensor) -> tuple[int, ...]:
    """That of the features."""
    return (*points.shape[:-1], -(-(points.shape[-1] + 2) // STEP) * STEP)


@torch.library.custom_op("regard::gaussian_features", mutates_args=())
def _features(points: Tensor, origin: Tensor, width: Tensor, is_key: bool) -> Tensor:
    made = points.new_empty(shape_of(points))
    num_rows = points[..., 0].numel()
    with torch.cuda.device_of(points):
        features_kernel[(-(-num_rows // ROWS),)](
            points, origin, width, made, num_rows, points.shape[-2], *bounds(points), IS_KEY=is_key,
            **constants(points, width),
        )  # fmt: skip
    return made


@_features.register_fake
def _(points: Tensor, origin: Tensor, width: Tensor, is_key: bool) -> Tensor:
    return points.new_empty(shape_of(points))


@torch.library.custom_op("regard::gaussian_features_backward", mutates_args=())
def _features_backward(
    grad: Tensor, points: Tensor, origin: Tensor, width: Tensor, is_key: bool
) -> tuple[Tensor, Tensor]:
    num_rows = points[..., 0].numel()
    blocks = -(-num_rows // ROWS)
    point_grad, sums = torch.empty_like(points), points.new_empty(blocks, points.shape[-1], dtype=torch.float32)
    with torch.cuda.device_of(points):
        backward_kernel[(blocks,)](
            grad.contiguous(), points, origin, width, point_grad, sums, num_rows, points.shape[-2], *bounds(points),
            IS_KEY=is_key, **constants(points, width),
        )  # fmt: skip
    return point_grad, sums.sum(0) if width.ndim else sums.sum()


@_features_backward.register_fake
def _(grad: Tensor, points: Tensor, origin: Tensor, width: Tensor, is_key: bool) -> tuple[Tensor, Tensor]:
    return torch.empty_like(points), torch.empty_like(width, dtype=torch.float32)


def _save(ctx: Any, inputs: tuple[Any, ...], output: Tensor) -> None:
    ctx.save_for_backward(*inputs[:3])
    ctx.is_key = inputs[3]


def _backward(ctx: Any, grad: Tensor) -> tuple[Tensor | None, ...]:
    points, origin, width = ctx.saved_tensors
    point_grad, width_grad = _features_backward(grad, points, origin, width, ctx.is_key)
    # only rounding depends on the origin
    return point_grad, None, width_grad.to(width.dtype) if ctx.needs_input_grad[2] else None, None


_features.register_autograd(_backward, setup_context=_save)


def bounds(points: Tensor) -> tuple[float, float]:
    """How far off a point may be, and how far down its bias: what lies further is put there."""
    finite = torch.finfo(points.dtype)
    return min((torch.finfo(torch.float32).max / (4 * points.shape[-1])) ** 0.5, finite.max), finite.min


def constants(points: Tensor, width: Tensor) -> dict[str, Any]:
    """What the kernels are compiled for."""
    size = shape_of(points)[-1]
    return {
        "WIDTHS": width.ndim > 0,
        "D": points.shape[-1],
        "S": size,
        "ROWS": ROWS,
        "BLOCK": power_of_two(size),
        "num_warps": 4,
    }
