"""Hard attention: all weight on one key. How this key is picked is an object.

    weights = one_hot(pick(s))

Xu et al. 2015, section 4.1 (sampled, trained by REINFORCE). https://arxiv.org/abs/1502.03044
Jang, Gu and Poole 2017 (straight-through Gumbel-softmax). https://arxiv.org/abs/1611.01144
"""

import math
from typing import Protocol, runtime_checkable

import torch
from jaxtyping import Bool, Float, Int
from torch import Tensor, nn

from regard.contracts import Aligned, PositionInfo
from regard.kernels import masked_softmax


def one_hot(choice: Int[Tensor, "*B Q"], like: Float[Tensor, "*B Q K"]) -> Float[Tensor, "*B Q K"]:
    """1 at the chosen key."""
    return torch.zeros_like(like).scatter(-1, choice.unsqueeze(-1), 1.0)


@runtime_checkable
class Pick(Protocol):
    """Picks one key per query from its distribution over keys; no distribution is empty."""

    def __call__(self, probabilities: Tensor, scores: Tensor) -> Aligned:
        """One-hot weights; scores of forbidden keys are -inf."""
        ...


class Argmax(nn.Module):
    """The key with the highest score. The scores get no gradient: the weights are constant in almost every point."""

    def forward(self, probabilities: Float[Tensor, "*B Q K"], scores: Float[Tensor, "*B Q K"]) -> Aligned:
        """One-hot weights at the first of the highest scores."""
        return Aligned(weights=one_hot(scores.argmax(dim=-1), probabilities.detach()))


class Gumbel(nn.Module):
    """Straight-through sample: one-hot forward, the gradient of softmax((s + noise) / temperature) backward.

    In evaluation there is no noise, so the key with the highest score is picked.
    """

    def __init__(self, *, temperature: float = 1.0) -> None:
        super().__init__()
        # written so that NaN is refused too
        if not 0 < temperature < math.inf:
            raise ValueError(f"temperature is {temperature}, expected a finite number above 0.")
        self.temperature = temperature

    def extra_repr(self) -> str:
        """Settings that print shows."""
        return f"temperature={self.temperature}"

    def forward(self, probabilities: Float[Tensor, "*B Q K"], scores: Float[Tensor, "*B Q K"]) -> Aligned:
        """One-hot weights with the gradient of the softmax."""
        if self.training:
            # -log(-log u) is a Gumbel variable; an exponential variable is -log u, and never takes the log of 0
            scores = scores - torch.empty_like(scores).exponential_().clamp_min(torch.finfo(scores.dtype).tiny).log()
        # forbidden keys score -inf, also after noise and temperature, so no mask is needed
        soft = masked_softmax(scores / self.temperature)
        hard = one_hot(soft.argmax(dim=-1), soft.detach())
        # the value is that of `hard` up to rounding, the gradient that of `soft`
        return Aligned(weights=hard + soft - soft.detach())


class Sampled(nn.Module):
    """A sample and its log-probability, for REINFORCE: loss = -(reward - baseline) * sample_log_prob.

    In evaluation the key with the highest score is picked.
    """

    def forward(self, probabilities: Float[Tensor, "*B Q K"], scores: Float[Tensor, "*B Q K"]) -> Aligned:
        """Weights without gradient, and a log-probability with gradient."""
        # multinomial takes two dimensions: one row per query of the batch
        flat = probabilities.detach().flatten(0, -2)
        if self.training and flat.numel():
            choice = torch.multinomial(flat.float(), 1).view(probabilities.shape[:-1])
        else:
            choice = scores.argmax(dim=-1)
        probability = probabilities.gather(-1, choice.unsqueeze(-1)).squeeze(-1)
        # the smallest normal number instead of 0 keeps the logarithm and its gradient finite
        log_prob = probability.clamp_min(torch.finfo(probability.dtype).tiny).log()
        return Aligned(weights=one_hot(choice, probabilities.detach()), sample_log_prob=log_prob)


class Hard(nn.Module):
    """All weight on one key, picked by Hard(Argmax()), Hard(Gumbel()) or Hard(Sampled())."""

    ignores_row_constant = True
    sums_to_one = True

    def __init__(self, pick: Pick | None = None) -> None:
        super().__init__()
        self.pick = Argmax() if pick is None else pick

    def forward(
        self,
        scores: Float[Tensor, "*B Q K"],
        mask: Bool[Tensor, "..."] | None = None,
        position_info: PositionInfo | None = None,
    ) -> Aligned:
        """One allowed key per query; a query without allowed keys gets zeros and log-probability 0."""
        probabilities = masked_softmax(scores, mask)
        # argmax needs at least one key; the sum over no key gives log-probabilities of 0, shape (.., Q)
        if scores.shape[-1] == 0:
            zeros = probabilities.sum(dim=-1) if isinstance(self.pick, Sampled) else None
            return Aligned(weights=probabilities, sample_log_prob=zeros)
        # -inf and no large negative number: a pick must never choose a forbidden key, however low the other scores are
        if mask is not None:
            scores = scores.masked_fill(~mask, float("-inf"))
        # True for a query without an allowed key, and for one whose allowed keys all score -inf
        empty = (scores == float("-inf")).all(dim=-1, keepdim=True)
        broken = scores.detach().isnan().any(dim=-1, keepdim=True)
        # these queries pick from a distribution on the first key, and their weights are replaced afterwards
        first = torch.zeros_like(scores).index_fill(-1, torch.zeros(1, dtype=torch.long, device=scores.device), 1.0)
        # their scores are finite, so that a pick needs no case for them
        picked = self.pick(torch.where(empty | broken, first, probabilities), scores.masked_fill(empty | broken, 0.0))
        log_prob = picked.sample_log_prob
        if log_prob is not None:
            # a query without a choice must add nothing to the loss
            log_prob = log_prob.masked_fill(empty.squeeze(-1), 0.0).masked_fill(broken.squeeze(-1), torch.nan)
        # there is no highest score beside NaN
        weights = picked.weights.masked_fill(empty, 0.0).masked_fill(broken, torch.nan)
        return Aligned(weights=weights, sample_log_prob=log_prob)
