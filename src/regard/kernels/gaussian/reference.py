"""Gaussian scores in plain torch: as the formula, and as a dot product.

    score(q, k) = -1/2 |q - k|^2

`gaussian_scores` squares the differences, which keeps all digits of near points that are far from 0. `multiply_out`
expands the square:

    -1/2 |w (q - k)|^2 = (w q) . (w k) - 1/2 |w k|^2 - 1/2 |w q|^2

The last term is constant for a query, and the softmax does not depend on it. Large squares cancel in the expansion, so
all points are measured from the median of the keys. On a CPU, points so far apart that a score would lose its digits
are refused; on CUDA the error of a score is about |w (k - median)|^2 times the rounding of one number.
"""

import torch
from jaxtyping import Float
from torch import Tensor

from regard.contracts import Lowered, LoweredSquare
from regard.kernels.autograd import in_query_blocks, is_concrete

MAX_SCORE_ERROR = 1e-4
"""Largest rounding error of a score for which the square is multiplied out."""
MEDIAN_KEYS = 32
"""The origin is the median of about this many keys, evenly spaced."""


def gaussian_scores(queries: Float[Tensor, "*#B Q size"], keys: Float[Tensor, "*#B K size"]) -> Float[Tensor, "*B Q K"]:
    """Scores of every query against every key, a block of queries at a time."""
    return in_query_blocks(pair_scores, queries, keys)


def pair_scores(queries: Float[Tensor, "... Q size"], keys: Float[Tensor, "... K size"]) -> Float[Tensor, "... Q K"]:
    """Scores from the [.., Q, K, size] differences; half precision is squared and summed in float32."""
    differences = queries.unsqueeze(-2) - keys.unsqueeze(-3)
    wide = differences.to(torch.promote_types(differences.dtype, torch.float32))
    return (-wide.square().sum(dim=-1) / 2).to(differences.dtype)


def multiply_out(square: LoweredSquare) -> Lowered | str:
    """The same scores as a dot product and a bias per key, or the reason why that would lose too many digits."""
    queries, keys = square.queries, square.keys
    origin = median_of(keys) if keys.shape[-2] else keys.new_zeros(keys.shape[-1])
    queries, keys = (scaled(points - origin, square.width) for points in (queries, keys))
    half_squares = half_square(keys)
    # reading a value on the host is free on a CPU only; elsewhere it would stall the device
    if keys.numel() and queries.numel() and is_concrete(keys) and is_concrete(queries):
        largest = float(torch.maximum(half_squares.detach().max(), half_square(queries.detach()).max()))
        if largest * torch.finfo(half_squares.dtype).eps > MAX_SCORE_ERROR:
            return f"a dot product of points {(2 * largest) ** 0.5:.3g} widths apart would lose the scores' digits"
    return Lowered(queries=queries, keys=keys, key_bias=-half_squares, drops_row_constant=True)


def scaled(points: Float[Tensor, "... L size"], width: Float[Tensor, "..."]) -> Float[Tensor, "... L size"]:
    """Points times the width, clamped so that the sum of their squares stays finite."""
    wide = torch.finfo(torch.promote_types(points.dtype, torch.float32))
    # a difference of two clamped points is at most 2 * limit in each dimension: its square sums to at most wide.max
    limit = min((wide.max / (4 * max(points.shape[-1], 1))) ** 0.5, torch.finfo(points.dtype).max)
    return (points * width.to(points.dtype)).clamp(-limit, limit)


def median_of(keys: Float[Tensor, "... K size"]) -> Float[Tensor, "... 1 size"]:
    """The median of a sample of the keys.

    Unlike the mean, it does not depend on padding that fills less than half of the keys, nor on single keys that are
    NaN. Only rounding depends on it, so it needs no gradient.
    """
    step = max(1, keys.shape[-2] // MEDIAN_KEYS)
    return keys.detach()[..., ::step, :].nanmedian(dim=-2, keepdim=True).values


def half_square(points: Float[Tensor, "... size"]) -> Float[Tensor, "..."]:
    """1/2 |x|^2, summed in at least float32."""
    return points.to(torch.promote_types(points.dtype, torch.float32)).square().sum(dim=-1) / 2
