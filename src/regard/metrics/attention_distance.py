"""How far back attention reaches: the weight on the last 1, 2, 5, 10 and 15 words that a query may attend to.

    within(n) = mean over queries of sum_{j <= n} a_j,   distance = mean over queries of sum_j j a_j

j counts back from the last key that the mask allows, which is number 1.

Daniluk et al. 2017, section 5: attention over the last outputs of a language model hardly reaches beyond five.
https://arxiv.org/abs/1702.04521
"""

from dataclasses import dataclass

import torch
from jaxtyping import Bool, Float
from torch import Tensor

SPANS = (1, 2, 5, 10, 15)


@dataclass(frozen=True, kw_only=True)
class SpanMass:
    """Mean weight within each span of SPANS and mean distance, over `count` queries."""

    within: tuple[float, ...]
    distance: float
    count: int

    @classmethod
    def of(cls, sums: "SpanSums") -> "SpanMass":
        """Divide the sums by the number of queries."""
        if not sums.count:
            raise ValueError(
                "no query could attend to any key. Measure a model with attention, on a text of 2 tokens or more."
            )
        within = tuple(float(total) / sums.count for total in sums.within)
        return cls(within=within, distance=float(sums.distance) / sums.count, count=sums.count)


@dataclass(frozen=True, kw_only=True)
class SpanSums:
    """The sums behind a SpanMass; those of parts of a text can be added up."""

    within: Float[Tensor, " spans"]
    distance: Float[Tensor, ""]
    count: int

    def __add__(self, other: "SpanSums") -> "SpanSums":
        return SpanSums(
            within=self.within + other.within,
            distance=self.distance + other.distance,
            count=self.count + other.count,
        )


def span_sums(weights: Float[Tensor, "... Q K"], allowed: Bool[Tensor, "..."] | None) -> SpanSums:
    """Weight by distance, summed over all queries that may attend to at least one key; the mask None allows all."""
    mask = torch.ones_like(weights, dtype=torch.bool) if allowed is None else allowed.expand_as(weights)
    # allowed keys at or after each key: 1 for the last one, 2 for the one before it
    # cumulative sum from the last key to the first
    distance = mask.flip(-1).cumsum(-1).flip(-1)
    # a text adds up millions of weights, for which float32 is too coarse
    weights = (weights * mask).double()
    # one transfer for all spans
    within = torch.stack([(weights * (distance <= span)).sum() for span in SPANS]).cpu()
    # queries without any key, such as the first word, are not part of the mean
    return SpanSums(within=within, distance=(weights * distance).sum().cpu(), count=int(mask.any(-1).sum()))
