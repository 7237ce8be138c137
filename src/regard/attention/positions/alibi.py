"""ALiBi: a penalty on the scores that grows with distance, with a slope per head.

    score(i, j) += -m_h |i - j|,   m_h = 2^(-8 h / H)

Press, Smith and Lewis 2022, section 3. https://arxiv.org/abs/2108.12409
The paper has causal attention only; |i - j| extends it to later keys.
If the number of heads is no power of two, the remaining slopes are every other one of those for twice the power below,
as in the authors' code.
"""

import math

import torch
from jaxtyping import Float, Int
from torch import Tensor

from regard.contracts import PositionScheme


def slopes(num_heads: int) -> list[float]:
    """One slope per head, a geometric sequence."""
    power = 2 ** math.floor(math.log2(num_heads))
    # heads are counted from 1, as in the formula
    exact = [2 ** (-8 * head / power) for head in range(1, power + 1)]
    # the odd heads of the sequence for twice as many heads; its even ones are those of `exact`
    between = [2 ** (-4 * head / power) for head in range(1, 2 * power + 1, 2)]
    return exact + between[: num_heads - power]


class Alibi(PositionScheme):
    """No parameters; extrapolates to texts longer than those of training."""

    slopes: Tensor

    def __init__(self, *, num_heads: int) -> None:
        super().__init__()
        if num_heads < 1:
            raise ValueError(f"num_heads is {num_heads}, expected 1 or more.")
        # computed from the number of heads, so no part of a checkpoint
        self.register_buffer("slopes", torch.tensor(slopes(num_heads)), persistent=False)

    def extra_repr(self) -> str:
        """Settings that print shows."""
        return f"num_heads={self.slopes.numel()}"

    def bias(
        self, queries: Float[Tensor, "*B Q size"], query_positions: Int[Tensor, " Q"], key_positions: Int[Tensor, " K"]
    ) -> Float[Tensor, "H Q K"]:
        """The slope of each head times the negative distance."""
        if queries.shape[-3:-2] != self.slopes.shape:
            raise ValueError(
                f"queries have shape {tuple(queries.shape)}, expected (.., {self.slopes.numel()} heads, Q, size): "
                f"Alibi(num_heads={self.slopes.numel()}) has one slope per head."
            )
        # (Q, K), the same for all heads and batch elements
        distance = (key_positions[None, :] - query_positions[:, None]).abs()
        # the product is formed in float32: half precision does not represent every distance
        return (-self.slopes[:, None, None].float() * distance).to(queries.dtype)
