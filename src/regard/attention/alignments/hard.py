"""Hard attention: look at one key only. How that key is picked is an object.

    weights = one_hot(pick(s))

Xu et al. 2015, section 4.1 (sampled, trained by REINFORCE). https://arxiv.org/abs/1502.03044
Jang, Gu and Poole 2017 (straight-through Gumbel-softmax). https://arxiv.org/abs/1611.01144
"""

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
    """One key per query from its distribution over keys (rows of zeros never get here)."""

    def __call__(self, probabilities: Tensor, scores: Tensor) -> Aligned:
        """One-hot weights; scores of forbidden keys are -inf."""
        ...


class Argmax(nn.Module):
    """The best key. Scores get no gradient: nothing changes when a score moves a little."""

    def forward(self, probabilities: Float[Tensor, "*B Q K"], scores: Float[Tensor, "*B Q K"]) -> Aligned:
        """The first of the highest scores."""
        return Aligned(weights=one_hot(scores.argmax(dim=-1), probabilities.detach()))


class Gumbel(nn.Module):
    """A sample that pretends to be soft: one-hot forward, the gradient of softmax((s + noise) / temperature) backward.

    In evaluation there is no noise: the best key.
    """

    def __init__(self, *, temperature: float = 1.0) -> None:
        super().__init__()
        if temperature <= 0:
            raise ValueError(f"temperature is {temperature}, expected more than 0.")
        self.temperature = temperature

    def forward(self, probabilities: Float[Tensor, "*B Q K"], scores: Float[Tensor, "*B Q K"]) -> Aligned:
        """A straight-through sample."""
        if self.training:
            # -log(-log u) is a Gumbel variable; an exponential variable is -log u without a log of 0
            scores = scores - torch.empty_like(scores).exponential_().clamp_min(torch.finfo(scores.dtype).tiny).log()
        soft = masked_softmax(scores / self.temperature)
        hard = one_hot(soft.argmax(dim=-1), soft.detach())
        return Aligned(weights=hard + soft - soft.detach())


class Sampled(nn.Module):
    """A sample and its log-probability, for REINFORCE: loss = -(reward - baseline) * log_prob.

    In evaluation the best key is taken.
    """

    def forward(self, probabilities: Float[Tensor, "*B Q K"], scores: Float[Tensor, "*B Q K"]) -> Aligned:
        """Weights without gradient, a log-probability with one."""
        flat = probabilities.detach().flatten(0, -2)
        if self.training and flat.numel():
            choice = torch.multinomial(flat.float(), 1).view(probabilities.shape[:-1])
        else:
            choice = scores.argmax(dim=-1)
        chosen = probabilities.gather(-1, choice.unsqueeze(-1)).squeeze(-1)
        log_prob = chosen.clamp_min(torch.finfo(chosen.dtype).tiny).log()
        return Aligned(weights=one_hot(choice, probabilities.detach()), log_prob=log_prob)


class Hard(nn.Module):
    """All weight on one key: Hard(Argmax()), Hard(Gumbel()), Hard(Sampled())."""

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
        """One allowed key per query; an empty row is zeros, with log-probability 0."""
        probabilities = masked_softmax(scores, mask)
        if scores.shape[-1] == 0:
            nothing = probabilities.sum(dim=-1) if isinstance(self.pick, Sampled) else None
            return Aligned(weights=probabilities, log_prob=nothing)
        if mask is not None:
            scores = scores.masked_fill(~mask, float("-inf"))
        empty = (scores == float("-inf")).all(dim=-1, keepdim=True)
        first = torch.zeros_like(scores).index_fill(-1, torch.zeros(1, dtype=torch.long, device=scores.device), 1.0)
        picked = self.pick(torch.where(empty, first, probabilities), scores.masked_fill(empty, 0.0))
        log_prob = picked.log_prob
        if log_prob is not None:
            log_prob = log_prob.masked_fill(empty.squeeze(-1), 0.0)
        return Aligned(weights=picked.weights.masked_fill(empty, 0.0), log_prob=log_prob)
