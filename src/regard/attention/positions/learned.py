"""Learned positions: a vector for every place, up to the longest text.

    p(t) = E[t]

Gehring et al. 2017, section 3.1. https://arxiv.org/abs/1705.03122
"""

import torch
from jaxtyping import Float, Int
from torch import Tensor, nn


class Learned(nn.Module):
    """Added to the states."""

    def __init__(self, *, size: int, max_length: int) -> None:
        super().__init__()
        self.table = nn.Embedding(max_length, size)
        nn.init.normal_(self.table.weight, std=size**-0.5)

    def forward(
        self, states: Float[Tensor, "*B L size"], positions: Int[Tensor, "..."] | None = None
    ) -> Float[Tensor, "*B L size"]:
        """States with their place added; positions count from 0 unless given (those are trusted to fit)."""
        length, max_length = states.shape[-2], self.table.num_embeddings
        if states.shape[-1] != self.table.embedding_dim:
            raise ValueError(
                f"states have size {states.shape[-1]}, but Learned was built for size {self.table.embedding_dim}."
            )
        if positions is None:
            if length > max_length:
                raise ValueError(
                    f"states have length {length}, but Learned has {max_length} positions. Shorten the text or build "
                    f"it with max_length={length} or more."
                )
            positions = torch.arange(length, device=states.device)
        return states + self.table(positions)
