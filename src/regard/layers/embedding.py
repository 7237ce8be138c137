"""Embedding of tokens, and the readout from features to logits with its loss.

Embedding: a word's vector, at the size of its position's.

    x = sqrt(d) E[token]

Vaswani et al. 2017, section 3.4. https://arxiv.org/abs/1706.03762
Vectors start at norm about 1 (variance 1/d each), sinusoids have norm sqrt(d/2): unscaled, the place would drown the
word.

Readout: a decoder's features to logits over the target vocabulary, or straight to the loss.

    logits = W x + b

With W the embedding's own table (tied): Press and Wolf 2017. https://arxiv.org/abs/1608.05859
"""

import torch
import torch.nn.functional as F
from jaxtyping import Float, Int
from torch import Tensor, nn

from regard.contracts import PAD
from regard.kernels.cross_entropy import chunked_cross_entropy


class Embedding(nn.Module):
    """Read with forward, written with `unembed`, which is the same table (tied); leave it unused to have them apart."""

    def __init__(self, *, vocab_size: int, hidden_size: int) -> None:
        super().__init__()
        self.table = nn.Embedding(vocab_size, hidden_size)
        nn.init.normal_(self.table.weight, std=hidden_size**-0.5)

    def forward(self, ids: Int[Tensor, "*B"]) -> Float[Tensor, "*B size"]:
        """Vectors of these tokens, times sqrt(size)."""
        return self.table(ids) * self.table.embedding_dim**0.5

    def unembed(self, states: Float[Tensor, "*B size"]) -> Float[Tensor, "*B vocab"]:
        """Logits: how well each word's own vector answers the state."""
        return F.linear(states, self.table.weight)


class Readout(nn.Module):
    """The last layer. `tied` takes another layer's table instead of one of its own, and then has no bias."""

    def __init__(self, *, hidden_size: int, vocab_size: int, tied: Tensor | None = None) -> None:
        super().__init__()
        if tied is not None and tuple(tied.shape) != (vocab_size, hidden_size):
            raise ValueError(
                f"the tied table has shape {tuple(tied.shape)}, expected ({vocab_size}, {hidden_size}). "
                f"Tie a table of that shape, or none."
            )
        self.weight = nn.Parameter(torch.empty(vocab_size, hidden_size)) if tied is None else tied
        self.bias = nn.Parameter(torch.zeros(vocab_size)) if tied is None else None
        if tied is None:
            nn.init.normal_(self.weight, std=hidden_size**-0.5)

    def forward(self, features: Float[Tensor, "*B size"]) -> Float[Tensor, "*B vocab"]:
        """Logits."""
        return F.linear(features, self.weight, self.bias)

    def loss(
        self, features: Float[Tensor, "*B size"], labels: Int[Tensor, "*B"], *, label_smoothing: float = 0.0
    ) -> Float[Tensor, ""]:
        """Cross-entropy in nats, summed over the labels that are not <pad>."""
        return chunked_cross_entropy(
            features, self.weight, self.bias, labels, ignored=PAD, label_smoothing=label_smoothing
        )
