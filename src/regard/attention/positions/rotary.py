"""Rotary positions: queries and keys are rotated by their positions, so their products depend on distances only.

    (x_{2i}, x_{2i+1}) rotated by the angle t / 10000^(2i/d)

Su et al. 2021, section 3.4. https://arxiv.org/abs/2104.09864
"""

import math

import torch
from jaxtyping import Float, Int
from torch import Tensor

from regard.contracts import PositionScheme


class Rotary(PositionScheme):
    """No parameters; `head_size` must be even."""

    def __init__(self, *, head_size: int, base: float = 10_000.0) -> None:
        super().__init__()
        if head_size % 2:
            raise ValueError(f"head_size is {head_size}, but Rotary rotates pairs of features: it must be even.")
        self.head_size, self.base = head_size, base

    def extra_repr(self) -> str:
        """Settings that print shows."""
        return f"head_size={self.head_size}, base={self.base}"

    def transform(
        self, vectors: Float[Tensor, "*B L size"], positions: Int[Tensor, " L"]
    ) -> Float[Tensor, "*B L size"]:
        """Each pair of features, rotated by the angle of its position."""
        if vectors.shape[-1] != self.head_size:
            raise ValueError(f"vectors have size {vectors.shape[-1]}, but Rotary was built for size {self.head_size}.")
        wide = torch.promote_types(vectors.dtype, torch.float32)
        steps = torch.arange(0, self.head_size, 2, device=vectors.device, dtype=wide)
        # half precision rounds the angles of large positions
        angles = positions.unsqueeze(-1) * torch.exp(-math.log(self.base) / self.head_size * steps)
        # cosines and sines lie in [-1, 1], where rounding to half precision is harmless
        cos, sin = angles.cos().to(vectors.dtype), angles.sin().to(vectors.dtype)
        # neighbouring features form a pair, as in the paper; some implementations pair the two halves instead
        even, odd = vectors[..., 0::2], vectors[..., 1::2]
        # interleaved again, in the order of the input
        return torch.stack([even * cos - odd * sin, even * sin + odd * cos], dim=-1).flatten(-2)
