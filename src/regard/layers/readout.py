"""Readout: a decoder's features to logits over the target vocabulary, or straight to the loss.

    logits = W x + b

With W the embedding's own table (tied): Press and Wolf 2017. https://arxiv.org/abs/1608.05859
"""

import torch
import torch.nn.functional as F
from jaxtyping import Float, Int
from torch import Tensor, nn

from regard.contracts import PAD
from regard.kernels.cross_entropy import chunked_cross_entropy


class Readout(nn.Module):
    """The last layer. `tied` takes another layer's table instead of one of its own, and then has no bias."""

    def __init__(self, *, size: int, vocab_size: int, tied: Tensor | None = None) -> None:
        super().__init__()
        if tied is not None and tuple(tied.shape) != (vocab_size, size):
            raise ValueError(
                f"the tied table has shape {tuple(tied.shape)}, expected ({vocab_size}, {size}). "
                f"Tie a table of that shape, or none."
            )
        self.weight = nn.Parameter(torch.empty(vocab_size, size)) if tied is None else tied
        self.bias = nn.Parameter(torch.zeros(vocab_size)) if tied is None else None
        if tied is None:
            nn.init.normal_(self.weight, std=size**-0.5)

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
