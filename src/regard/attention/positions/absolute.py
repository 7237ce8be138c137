"""Absolute positions that are added to states: sinusoidal and learned.

    Sinusoidal   p(t, 2i) = sin(t / 10000^(2i/d)),   p(t, 2i+1) = cos(t / 10000^(2i/d))
    Learned      p(t) = E[t]

Sinusoidal: Vaswani et al. 2017, section 3.5. https://arxiv.org/abs/1706.03762
Every p(t) has norm sqrt(d/2) exactly (for even d), since sin^2 + cos^2 = 1.
Learned: Gehring et al. 2017, section 3.1. https://arxiv.org/abs/1705.03122
"""

import math

import torch
from jaxtyping import Float, Int
from torch import Tensor, nn


class Sinusoidal(nn.Module):
    """Sines and cosines added to the states; no parameters and no maximum length."""

    def __init__(self, *, hidden_size: int, base: float = 10_000.0) -> None:
        super().__init__()
        self.hidden_size, self.base = hidden_size, base

    def extra_repr(self) -> str:
        """Settings that print shows."""
        return f"hidden_size={self.hidden_size}, base={self.base}"

    def encode(self, positions: Int[Tensor, "*L"], dtype: torch.dtype = torch.float32) -> Float[Tensor, "*L size"]:
        """The vectors of these positions, computed in float32 or wider: half precision rounds large angles."""
        wide = torch.promote_types(dtype, torch.float32)
        steps = torch.arange(0, self.hidden_size, 2, device=positions.device, dtype=wide)
        # one angle per pair of features: (.., L, 1) times (size / 2,)
        angles = positions.unsqueeze(-1) * torch.exp(-math.log(self.base) / self.hidden_size * steps)
        # sines and cosines alternate; an odd size drops the last cosine
        return torch.stack([angles.sin(), angles.cos()], dim=-1).flatten(-2)[..., : self.hidden_size].to(dtype)

    def forward(
        self, states: Float[Tensor, "*B L size"], positions: Int[Tensor, "..."] | None = None
    ) -> Float[Tensor, "*B L size"]:
        """States plus the vectors of their positions, by default 0, 1, 2 .."""
        if states.shape[-1] != self.hidden_size:
            raise ValueError(
                f"states have size {states.shape[-1]}, but Sinusoidal was built for size {self.hidden_size}."
            )
        if positions is None:
            positions = torch.arange(states.shape[-2], device=states.device)
        return states + self.encode(positions, states.dtype)


class Learned(nn.Module):
    """A learned vector per position, added to the states."""

    def __init__(self, *, hidden_size: int, max_length: int) -> None:
        super().__init__()
        self.table = nn.Embedding(max_length, hidden_size)
        nn.init.normal_(self.table.weight, std=hidden_size**-0.5)

    def forward(
        self, states: Float[Tensor, "*B L size"], positions: Int[Tensor, "..."] | None = None
    ) -> Float[Tensor, "*B L size"]:
        """States plus the vectors of their positions, by default 0, 1, 2 .. Given positions are not checked."""
        length, max_length = states.shape[-2], self.table.num_embeddings
        if states.shape[-1] != self.table.embedding_dim:
            raise ValueError(
                f"states have size {states.shape[-1]}, but Learned was built for size {self.table.embedding_dim}."
            )
        # reading given positions would make the host wait for a GPU, so only the length is checked
        if positions is None:
            if length > max_length:
                raise ValueError(
                    f"states have length {length}, but Learned has {max_length} positions. Shorten the text or build "
                    f"it with max_length={length} or more."
                )
            positions = torch.arange(length, device=states.device)
        return states + self.table(positions)
