"""How far back an attention reaches: the weight on the last 1, 2, 5, 10, 15 words it may look at.

Daniluk et al. 2017, section 5, found that attention over the last outputs of a language model hardly reaches beyond
five. https://arxiv.org/abs/1702.04521

Words are counted back from the last one that the mask allows, which is number 1.
"""

from dataclasses import dataclass

import torch
from jaxtyping import Bool, Float
from torch import Tensor

SPANS = (1, 2, 5, 10, 15)


@dataclass(frozen=True, kw_only=True)
class SpanMass:
    """Mean weight within each span, the mean distance of the weight, and of how many looks."""

    within: tuple[float, ...]
    distance: float
    looks: int

    @classmethod
    def of(cls, sums: "SpanSums") -> "SpanMass":
        """From the sums over all looks."""
        if not sums.looks:
            raise ValueError("no look had anything to look at. Trace a model that attends, on 2 tokens or more.")
        within = tuple(float(total) / sums.looks for total in sums.within)
        return cls(within=within, distance=float(sums.distance) / sums.looks, looks=sums.looks)


@dataclass(frozen=True, kw_only=True)
class SpanSums:
    """The same before it is divided, so that pieces of a text can be added up."""

    within: Float[Tensor, " spans"]
    distance: Float[Tensor, ""]
    looks: int

    def __add__(self, other: "SpanSums") -> "SpanSums":
        return SpanSums(
            within=self.within + other.within,
            distance=self.distance + other.distance,
            looks=self.looks + other.looks,
        )


def span_sums(weights: Float[Tensor, "... Q K"], allowed: Bool[Tensor, "..."] | None) -> SpanSums:
    """Weight by distance, summed over every query that may look at something."""
    may = torch.ones_like(weights, dtype=torch.bool) if allowed is None else allowed.expand_as(weights)
    # the last key that may be looked at is number 1, the one before it number 2
    number = may.flip(-1).cumsum(-1).flip(-1)
    weights = (weights * may).double()
    within = torch.stack([(weights * (number <= span)).sum() for span in SPANS]).cpu()
    return SpanSums(within=within, distance=(weights * number).sum().cpu(), looks=int(may.any(-1).sum()))
