"""Gaussian scores as a dot product: the square multiplied out.

    -1/2 |w (q - k)|^2 = (w q) . (w k) - 1/2 |w k|^2 - 1/2 |w q|^2

The last term is constant in a row. Squares cancel, so points are counted from the middle of the keys; on the CPU points
so far apart that a score would lose its digits are refused, on CUDA its error is about |w (k - middle)|^2 times
rounding.
"""

import torch
from jaxtyping import Float
from torch import Tensor

from regard.contracts import Lowered, LoweredSquare
from regard.kernels.values import can_look

SCORE_ERROR = 1e-4
"""Rounding that a score may suffer by multiplying the square out."""


def multiply_out(square: LoweredSquare) -> Lowered | str:
    """The same scores as a dot product and a bias per key, or the reason why that would not do."""
    queries, keys = square.queries, square.keys
    origin = middle(keys) if keys.shape[-2] else keys.new_zeros(keys.shape[-1])
    queries, keys = (scaled(side - origin, square.width) for side in (queries, keys))
    squares = half_square(keys)
    if keys.numel() and queries.numel() and can_look(keys) and can_look(queries):
        farthest = float(torch.maximum(squares.detach().max(), half_square(queries.detach()).max()))
        if farthest * torch.finfo(squares.dtype).eps > SCORE_ERROR:
            return f"a dot product of points {(2 * farthest) ** 0.5:.3g} widths apart would lose the scores' digits"
    return Lowered(queries=queries, keys=keys, key_bias=-squares, drops_row_constant=True)


def scaled(points: Float[Tensor, "... L size"], width: Float[Tensor, "..."]) -> Float[Tensor, "... L size"]:
    """Points times the width; what lies further off than can be squared is put as far off as can be."""
    wide = torch.finfo(torch.promote_types(points.dtype, torch.float32))
    limit = min((wide.max / (4 * max(points.shape[-1], 1))) ** 0.5, torch.finfo(points.dtype).max)
    return (points * width.to(points.dtype)).clamp(-limit, limit)


def middle(keys: Float[Tensor, "... K size"]) -> Float[Tensor, "... 1 size"]:
    """Where the keys lie: the median of a few dozen, near the real ones if most are. Only rounding depends on it."""
    return keys.detach()[..., :: max(1, keys.shape[-2] // 32), :].median(dim=-2, keepdim=True).values


def half_square(vectors: Float[Tensor, "... size"]) -> Float[Tensor, "..."]:
    """1/2 |x|^2, summed in at least float32."""
    return vectors.to(torch.promote_types(vectors.dtype, torch.float32)).square().sum(dim=-1) / 2
