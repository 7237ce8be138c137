"""Weights that do not depend on the scores: controls for learned attention.

    Uniform   weights_tj = 1 / n                          n allowed keys
    Random    weights_tj = e_tj / sum_{allowed i} e_ti    e_tj ~ Exponential(1), a function of (seed, t, j) alone

Uniform: Wiegreffe and Pinter 2019, the uniform-weights baseline. https://arxiv.org/abs/1908.04626
Random: the fixed Random Synthesizer of Tay et al. 2020. https://arxiv.org/abs/2005.00743 There the softmax of a matrix
that is initialised once; shares of exponential variables are uniform over all distributions on the allowed keys.
"""

import torch
from jaxtyping import Bool, Float, Int
from torch import Tensor, nn

from regard.attention.indices import key_steps, query_steps
from regard.attention.masks.algebra import check_count
from regard.contracts import Aligned, PositionInfo
from regard.kernels import masked_softmax


def fixed_weights(
    exponents: Float[Tensor, "..."], scores: Float[Tensor, "*B Q K"], mask: Bool[Tensor, "..."] | None
) -> Aligned:
    """Softmax of exponents that take the place of the scores, of which -inf and NaN alone matter."""
    # as in every alignment, keys with a score of -inf are forbidden; finite scores are not used
    forbidden = scores.detach() == float("-inf")
    allowed = ~forbidden if mask is None else mask & ~forbidden
    # a score that is NaN may be one of -inf: like every alignment, this one shows it
    exponents = torch.where(scores.detach().isnan(), torch.nan, exponents.expand(scores.shape))
    # computed in the float32 of the positions, returned in the precision of the scores
    return Aligned(weights=masked_softmax(exponents, allowed).to(scores.dtype))


class Uniform(nn.Module):
    """The mean of the allowed keys; ignores finite scores."""

    ignores_row_constant = True
    sums_to_one = True

    def forward(
        self,
        scores: Float[Tensor, "*B Q K"],
        mask: Bool[Tensor, "..."] | None = None,
        position_info: PositionInfo | None = None,
    ) -> Aligned:
        """The same weight for every allowed key; zeros for a query without any."""
        return fixed_weights(scores.new_zeros(scores.shape[-1]), scores, mask)


class Random(nn.Module):
    """Weights drawn once for each pair of positions and never learned; needs position_info.positions.

    A weight depends on its two positions and the seed, so that batches, padding, devices and single steps do not change
    it, other than by the keys that share the sum. Attentions with the same seed have the same weights.
    """

    ignores_row_constant = True
    sums_to_one = True

    def __init__(self, *, seed: int = 0) -> None:
        super().__init__()
        check_count("seed", seed, 0)
        self.seed = seed

    def extra_repr(self) -> str:
        """Settings that print shows."""
        return f"seed={self.seed}"

    def forward(
        self,
        scores: Float[Tensor, "*B Q K"],
        mask: Bool[Tensor, "..."] | None = None,
        position_info: PositionInfo | None = None,
    ) -> Aligned:
        """Shares of exponential variables among the allowed keys."""
        steps, keys = query_steps(position_info, scores, "Random"), key_steps(position_info, scores)
        steps_of_seed = hash_numbers(torch.full_like(steps, self.seed, dtype=torch.long)) + steps.long()
        pairs = hash_numbers(steps_of_seed).unsqueeze(-1) + keys.long()
        # 23 of the 32 bits, and a half: in float32 neither 0 nor 1, whose logarithms are infinite or 0
        uniform = ((hash_numbers(pairs) >> 9).to(steps.dtype) + 0.5) / 2**23
        # -log u is an exponential variable, and softmax takes its logarithm
        return fixed_weights((-uniform.log()).log(), scores, mask)


def hash_numbers(numbers: Int[Tensor, "*shape"]) -> Int[Tensor, "*shape"]:
    """32 mixed bits of each number: a function of the number alone, where a generator's draws depend on their order."""
    numbers = numbers & 0xFFFFFFFF
    for _ in range(2):
        # the factor has 27 bits, so that the product fits into int64
        numbers = ((numbers >> 16) ^ numbers) * 0x45D9F3B & 0xFFFFFFFF
    return (numbers >> 16) ^ numbers
