"""Gaussian scores as the formula, the square multiplied out, and the request of a Gaussian kernel.

What a Gaussian kernel is asked: softmax(-1/2 |width (queries - keys)|^2) over what the mask allows, @ values.

Gaussian scores as the formula has them: by differences, which near neighbours far from 0 keep all digits of.

score(q, k) = -1/2 |q - k|^2

Gaussian scores as a dot product: the square multiplied out.

    -1/2 |w (q - k)|^2 = (w q) . (w k) - 1/2 |w k|^2 - 1/2 |w q|^2

The last term is constant in a row. Squares cancel, so points are counted from the middle of the keys; on the CPU points
so far apart that a score would lose its digits are refused, on CUDA its error is about |w (k - middle)|^2 times
rounding.
"""

from dataclasses import dataclass

import torch
from jaxtyping import Float
from torch import Tensor

from regard.contracts import Lowered, LoweredSquare
from regard.kernels.autograd import in_query_blocks, is_concrete
from regard.kernels.dot.reference import DotRequest, join_groups, split_groups
from regard.kernels.gaussian.features import feature_refusals, gaussian_features
from regard.kernels.request import AttentionRequest


@dataclass(frozen=True, kw_only=True)
class GaussianRequest(AttentionRequest):
    """One read on a GPU; there is one width, or one for each dimension."""

    width: Float[Tensor, "..."]

    def as_dot(self) -> DotRequest:
        """The same read as a dot kernel knows it; heads that share a key head are more queries of that head."""
        size = self.group_size
        queries = self.queries if size == 1 else join_groups(self.queries, size)
        if not any(feature_refusals(queries, self.keys, self.width)):
            queries, keys = gaussian_features(queries, self.keys, self.width)
            lowered = Lowered(queries=queries, keys=keys)
        else:
            found = multiply_out(LoweredSquare(queries=queries, keys=self.keys, width=self.width))
            assert isinstance(found, Lowered), "where nobody looks at the numbers nothing is refused"
            lowered = found
        return DotRequest(
            queries=lowered.queries if size == 1 else split_groups(lowered.queries, size),
            keys=lowered.keys,
            values=self.values,
            scale=lowered.scale,
            key_bias=lowered.key_bias,
            mask=self.mask,
            first_query=self.first_query,
            first_key=self.first_key,
            dropout=self.dropout,
            group_size=size,
        )


def pair_scores(queries: Float[Tensor, "... Q size"], keys: Float[Tensor, "... K size"]) -> Float[Tensor, "... Q K"]:
    """All differences at once; half precision is squared and summed in float32."""
    apart = queries.unsqueeze(-2) - keys.unsqueeze(-3)
    wide = apart.to(torch.promote_types(apart.dtype, torch.float32))
    return (-wide.square().sum(dim=-1) / 2).to(apart.dtype)


def gaussian_scores(queries: Float[Tensor, "*#B Q size"], keys: Float[Tensor, "*#B K size"]) -> Float[Tensor, "*B Q K"]:
    """Scores of every query against every key."""
    return in_query_blocks(pair_scores, queries, keys)


SCORE_ERROR = 1e-4
"""Rounding that a score may suffer by multiplying the square out."""


def multiply_out(square: LoweredSquare) -> Lowered | str:
    """The same scores as a dot product and a bias per key, or the reason why that would not do."""
    queries, keys = square.queries, square.keys
    origin = middle(keys) if keys.shape[-2] else keys.new_zeros(keys.shape[-1])
    queries, keys = (scaled(side - origin, square.width) for side in (queries, keys))
    squares = half_square(keys)
    if keys.numel() and queries.numel() and is_concrete(keys) and is_concrete(queries):
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
