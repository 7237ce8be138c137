"""Gaussian score: near is like.

    score(q, k) = -1/2 |w (q - k)|^2

With softmax this is Nadaraya-Watson kernel regression: the oldest attention of all.
Nadaraya 1964, https://doi.org/10.1137/1109020; Watson 1964, https://www.jstor.org/stable/25049340

Multiplied out, score = (w q) . (w k) - 1/2 |w k|^2 - 1/2 |w q|^2: a dot product, a bias per key, and a term that is
constant in a row. Squares cancel, so the lowering counts from the middle of the keys, and on the CPU refuses keys or
queries so far apart that a score would lose its digits; on CUDA its error is about |w (k - middle)|^2 times rounding.
"""

from collections.abc import Sequence

import torch
from jaxtyping import Float
from torch import Tensor, nn

from regard.attention.check import check_equal_sizes
from regard.contracts import Lowered
from regard.kernels import can_look, features_serve, gaussian_features, gaussian_scores

SCORE_ERROR = 1e-4
"""Rounding that a score may suffer by multiplying the square out."""


def middle(keys: Float[Tensor, "... K size"]) -> Float[Tensor, "... 1 size"]:
    """Where the keys lie: the median of a few dozen, which padding cannot drag away. Only rounding depends on it."""
    return keys.detach()[..., :: max(1, keys.shape[-2] // 32), :].median(dim=-2, keepdim=True).values


def half_square(vectors: Float[Tensor, "... size"]) -> Float[Tensor, "..."]:
    """1/2 |x|^2, summed in at least float32."""
    return vectors.to(torch.promote_types(vectors.dtype, torch.float32)).square().sum(dim=-1) / 2


class Gaussian(nn.Module):
    """One width, or one per dimension; `Gaussian(width=2.0).requires_grad_(False)` is the fixed kernel."""

    def __init__(self, *, width: float | Sequence[float] = 1.0) -> None:
        super().__init__()
        self.width = nn.Parameter(torch.as_tensor(width, dtype=torch.get_default_dtype()))
        if self.width.ndim > 1:
            raise ValueError(f"width has shape {tuple(self.width.shape)}, expected one number or one per dimension.")

    def prepare(self, keys: Float[Tensor, "... K size"]) -> Float[Tensor, "... K size"]:
        """Keys are compared as they are."""
        return keys

    def forward(
        self, queries: Float[Tensor, "*#B Q size"], keys: Float[Tensor, "*#B K key"]
    ) -> Float[Tensor, "*B Q K"]:
        """Score every query against every key."""
        return gaussian_scores(*self.scaled(queries, keys))

    def lower(self, queries: Float[Tensor, "... Q size"], keys: Float[Tensor, "... K key"]) -> Lowered | str:
        """w^2 q . k - 1/2 w^2 |k|^2; the query's own square is constant in its row."""
        check_equal_sizes(queries, keys, "Gaussian")
        if features_serve(queries, keys) and self.width.numel() in (1, queries.shape[-1]):
            size = queries.shape[-1]
            queries, keys = gaussian_features(queries, keys, self.width)
            return Lowered(queries=queries, keys=keys, folded=queries.shape[-1] - size, drops_row_constant=True)
        origin = middle(keys) if keys.shape[-2] else keys.new_zeros(keys.shape[-1])
        queries, keys = self.scaled(queries - origin, keys - origin)
        squares = half_square(keys)
        if keys.numel() and queries.numel() and can_look(keys) and can_look(queries):
            farthest = float(torch.maximum(squares.detach().max(), half_square(queries.detach()).max()))
            if farthest * torch.finfo(squares.dtype).eps > SCORE_ERROR:
                return f"a dot product of points {(2 * farthest) ** 0.5:.3g} widths apart would lose the scores' digits"
        return Lowered(queries=queries, keys=keys, key_bias=-squares, drops_row_constant=True)

    def scaled(
        self, queries: Float[Tensor, "... Q size"], keys: Float[Tensor, "... K key"]
    ) -> tuple[Float[Tensor, "... Q size"], Float[Tensor, "... K size"]]:
        """Both times the width; what lies further off than can be squared is put as far off as can be."""
        check_equal_sizes(queries, keys, "Gaussian")
        if self.width.ndim and self.width.numel() != queries.shape[-1]:
            raise ValueError(
                f"queries have size {queries.shape[-1]}, but this Gaussian has {self.width.numel()} widths. "
                f"Give one width, or one per dimension."
            )
        width = self.width.to(queries.dtype)
        wide = torch.finfo(torch.promote_types(queries.dtype, torch.float32))
        limit = min((wide.max / (4 * max(queries.shape[-1], 1))) ** 0.5, torch.finfo(queries.dtype).max)
        return (queries * width).clamp(-limit, limit), (keys * width).clamp(-limit, limit)
