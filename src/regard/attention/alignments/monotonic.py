"""Monotonic alignment: two cursors, one over the queries and one over the keys, and a sum over all of their paths.

    p_tj = sigmoid(s_tj + bias)                    the cursor over the keys stops at j, rather than moving on to j + 1
    q_tj = (1 - p_t,j-1) q_t,j-1 + weights_t-1,j   it arrives at j
    weights_tj = p_tj q_tj                         it stops at j for query t; for query t + 1 it goes on from there

Before the first query the cursor is at the first key. It never moves back, and may stop at one key several times.
weights_tj is the sum of the probabilities of all paths on which query t has key j.

Bahdanau's first idea in 2014, by his own account, was two cursors and dynamic programming. Yu, Buys and Blunsom 2016
published the sum over monotonic alignments for the likelihood of the outputs, https://arxiv.org/abs/1609.08194, and
Raffel et al. 2017, section 2.3, for the weights of attention, https://arxiv.org/abs/1704.00784. This is Raffel's.

Departs from the paper: expected weights serve evaluation too, where the paper stops at the first p > 1/2; the bias is a
setting; there is neither weight normalisation of the score nor noise before the sigmoid, which drive p to 0 or 1.
"""

import torch
import torch.nn.functional as F
from jaxtyping import Bool, Float
from torch import Tensor, nn

from regard.attention.indices import earlier_weights, position_dtype
from regard.contracts import Aligned, PositionInfo


class Monotonic(nn.Module):
    """Attention that only moves forward. One query at a time, position_info.previous_weights has the last weights.

    The weights of a query sum to less than 1: the rest is the probability that no key is chosen, because the cursor has
    moved past the last one, for this query and all that follow. A query that may attend to nothing ends every path.
    """

    ignores_row_constant = False
    sums_to_one = False

    def __init__(self, *, bias: float = 0.0) -> None:
        super().__init__()
        self.bias = bias

    def extra_repr(self) -> str:
        """Settings that print shows."""
        return f"bias={self.bias}"

    def forward(
        self,
        scores: Float[Tensor, "*B Q K"],
        mask: Bool[Tensor, "..."] | None = None,
        position_info: PositionInfo | None = None,
    ) -> Aligned:
        """The probability of each key under the paths of all queries up to this one."""
        if scores.numel() == 0:
            return Aligned(weights=scores)
        logits = scores.to(position_dtype(scores)) + self.bias
        if mask is not None:
            # the cursor moves on from a forbidden key
            logits = logits.masked_fill(~mask, float("-inf"))
        # not 1 - p, which would round to 0 or 1
        stop, move = torch.sigmoid(logits), torch.sigmoid(-logits)
        # True where the cursor cannot stop, so that a NaN of an earlier query does not become a weight: 0 * NaN is NaN
        forbidden, factors = logits.detach() == float("-inf"), arrival_factors(move)
        weights, rows = earlier_weights(position_info, scores), []
        for query, stop_here in enumerate(stop.unbind(-2)):
            arrival = weights
            for level, factor in enumerate(factors):
                arrival = arrival + factor[..., query, :] * shift(arrival, 2**level)
            weights = (stop_here * arrival).masked_fill(forbidden[..., query, :], 0.0)
            rows.append(weights)
        return Aligned(weights=torch.stack(rows, dim=-2).to(scores.dtype))


def arrival_factors(move: Float[Tensor, "*B Q K"]) -> list[Float[Tensor, "*B Q K"]]:
    """The probabilities of moving from key j - 2^n to key j, for n = 0, 1, ..: products of 2^n moves.

    With them q_tj is a sum in log2(K) steps instead of K. Only probabilities are multiplied and added: the closed form
    divides by products of moves, which vanish after a few keys.
    """
    # to arrive at j, the cursor moves on from j - 1
    factor, factors = shift(move, 1), []
    while 2 ** len(factors) < move.shape[-1]:
        factors.append(factor)
        factor = factor * shift(factor, 2 ** (len(factors) - 1))
    return factors


def shift(tensor: Float[Tensor, "... K"], distance: int) -> Float[Tensor, "... K"]:
    """Each number `distance` keys further right; zeros on the left."""
    return F.pad(tensor, (distance, -distance))
