"""Maxout: the best of several linear answers.

    maxout(x)_i = max_p (W_p x + b_p)_i

Goodfellow et al. 2013. https://arxiv.org/abs/1302.4389; the readout of Cho 2014 and Bahdanau 2015 (pairs of units).
"""

from jaxtyping import Float
from torch import Tensor, nn

from regard.kernels import linear
from regard.layers.unroll import may_fuse


class Maxout(nn.Module):
    """A learned convex activation."""

    def __init__(self, *, input_size: int, output_size: int, pieces: int = 2) -> None:
        super().__init__()
        if pieces < 1:
            raise ValueError(f"pieces is {pieces}, expected 1 or more (the papers take 2).")
        self.pieces = pieces
        self.proj = nn.Linear(input_size, output_size * pieces)

    def forward(self, states: Float[Tensor, "*B input"]) -> Float[Tensor, "*B output"]:
        """The largest of each unit's pieces."""
        seen = linear(states, self.proj.weight, self.proj.bias) if may_fuse(self, self.proj) else self.proj(states)
        return seen.unflatten(-1, (-1, self.pieces)).amax(dim=-1)
