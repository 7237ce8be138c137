"""Embedding: a word's vector, at the size of its position's.

    x = sqrt(d) E[token]

Vaswani et al. 2017, section 3.4. https://arxiv.org/abs/1706.03762
Vectors start at norm about 1 (variance 1/d each), sinusoids have norm sqrt(d/2): unscaled, the place would drown the
word.
"""

import torch.nn.functional as F
from jaxtyping import Float, Int
from torch import Tensor, nn


class Embedding(nn.Module):
    """Read with forward, written with `unembed`, which is the same table (tied); leave it unused to have them apart."""

    def __init__(self, *, vocab_size: int, size: int) -> None:
        super().__init__()
        self.table = nn.Embedding(vocab_size, size)
        nn.init.normal_(self.table.weight, std=size**-0.5)

    def forward(self, ids: Int[Tensor, "*B"]) -> Float[Tensor, "*B size"]:
        """Vectors of these tokens, times sqrt(size)."""
        return self.table(ids) * self.table.embedding_dim**0.5

    def unembed(self, states: Float[Tensor, "*B size"]) -> Float[Tensor, "*B vocab"]:
        """Logits: how well each word's own vector answers the state."""
        return F.linear(states, self.table.weight)
