"""Gaussian score: negative squared distance between query and key.

    score(q, k) = -1/2 |w (q - k)|^2

With softmax this is Nadaraya-Watson kernel regression, the oldest form of attention.
Nadaraya 1964, https://doi.org/10.1137/1109020; Watson 1964, https://www.jstor.org/stable/25049340
"""

from collections.abc import Sequence

import torch
from jaxtyping import Float
from torch import Tensor, nn

from regard.attention.checks import check_equal_sizes
from regard.contracts import LoweredSquare
from regard.kernels.gaussian import gaussian_scores, scaled


class Gaussian(nn.Module):
    """One learned width, or one per dimension; `Gaussian(width=2.0).requires_grad_(False)` keeps it fixed."""

    def __init__(self, *, width: float | Sequence[float] = 1.0) -> None:
        super().__init__()
        # a whole number must become a floating-point parameter
        self.width = nn.Parameter(torch.as_tensor(width, dtype=torch.get_default_dtype()))
        if self.width.ndim > 1:
            raise ValueError(f"width has shape {tuple(self.width.shape)}, expected one number or one per dimension.")

    def extra_repr(self) -> str:
        """Settings that print shows."""
        return f"num_widths={self.width.numel()}"

    def prepare(self, keys: Float[Tensor, "... K size"]) -> Float[Tensor, "... K size"]:
        """The keys themselves."""
        return keys

    def forward(
        self, queries: Float[Tensor, "*#B Q size"], keys: Float[Tensor, "*#B K key"]
    ) -> Float[Tensor, "*B Q K"]:
        """Score every query against every key."""
        self._check(queries, keys)
        return gaussian_scores(scaled(queries, self.width), scaled(keys, self.width))

    def lower(self, queries: Float[Tensor, "... Q size"], keys: Float[Tensor, "... K key"]) -> LoweredSquare:
        """The squared distance itself."""
        self._check(queries, keys)
        return LoweredSquare(queries=queries, keys=keys, width=self.width)

    def _check(self, queries: Float[Tensor, "... Q size"], keys: Float[Tensor, "... K key"]) -> None:
        check_equal_sizes(queries, keys, "Gaussian")
        if self.width.ndim and self.width.numel() != queries.shape[-1]:
            raise ValueError(
                f"queries have size {queries.shape[-1]}, but this Gaussian has {self.width.numel()} widths. "
                f"Pass one width, or one per dimension."
            )
