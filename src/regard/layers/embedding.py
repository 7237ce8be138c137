"""Embedding of tokens, and the output layer from features to logits with its loss.

Embedding: scaled word vectors.

    x = sqrt(d) E[token]

Vaswani et al. 2017, section 3.4. https://arxiv.org/abs/1706.03762
Vectors are initialised with norm about 1 (variance 1/d per element), and sinusoids have norm sqrt(d/2): the scale keeps
positions from dominating the words.

Output layer: features to logits over the vocabulary, or directly to the loss.

    logits = W x + b

With W shared with the embedding (tied): Press and Wolf 2017. https://arxiv.org/abs/1608.05859
"""

import torch
import torch.nn.functional as F
from jaxtyping import Float, Int
from torch import Tensor, nn

from regard.contracts import PAD, has_own_call
from regard.kernels.cross_entropy import chunked_cross_entropy, cross_entropy_of_logits

UNSEEN = 0.1
"""Added to the count of every token by `Readout.set_frequencies`."""


class Embedding(nn.Module):
    """Scaled embedding; `unembed` computes logits with the same table (tied weights)."""

    def __init__(self, *, vocab_size: int, hidden_size: int) -> None:
        super().__init__()
        self.table = nn.Embedding(vocab_size, hidden_size)
        nn.init.normal_(self.table.weight, std=hidden_size**-0.5)

    def forward(self, ids: Int[Tensor, "*B"]) -> Float[Tensor, "*B size"]:
        """Embeddings multiplied by sqrt(hidden_size)."""
        return self.table(ids) * self.table.embedding_dim**0.5

    def unembed(self, states: Float[Tensor, "*B size"]) -> Float[Tensor, "*B vocab"]:
        """Logits: dot products of the states with the unscaled embeddings."""
        return F.linear(states, self.table.weight)


class Readout(nn.Module):
    """The output layer. `tied` shares the weight of another layer, without a bias."""

    def __init__(self, *, hidden_size: int, vocab_size: int, tied: Tensor | None = None) -> None:
        super().__init__()
        # a transposed or resized table would fail much later, inside the loss
        if tied is not None and tuple(tied.shape) != (vocab_size, hidden_size):
            raise ValueError(
                f"the tied table has shape {tuple(tied.shape)}, expected ({vocab_size}, {hidden_size}). "
                f"Tie a table of that shape, or none."
            )
        # a tied weight is the same Parameter as in the other layer: optimizers get it once, with both gradients added
        self.weight = nn.Parameter(torch.empty(vocab_size, hidden_size)) if tied is None else tied
        self.bias = nn.Parameter(torch.zeros(vocab_size)) if tied is None else None
        if tied is None:
            # rows of norm about 1, as in Embedding
            nn.init.normal_(self.weight, std=hidden_size**-0.5)

    def set_frequencies(self, counts: Float[Tensor, " vocab"] | Int[Tensor, " vocab"]) -> None:
        """Initialise the bias with the log frequencies of the training labels; a tied readout has no bias.

        The model then begins with the unigram distribution. From a bias of 0 the features, often behind a tanh, would
        first have to learn these frequencies, which saturates them.
        """
        if self.bias is None:
            return
        if counts.shape != self.bias.shape:
            raise ValueError(f"there are {tuple(counts.shape)} counts for a vocabulary of {len(self.bias)} tokens.")
        # a token that does not occur keeps a finite logarithm
        smoothed = counts.double() + UNSEEN
        with torch.no_grad():
            self.bias.copy_((smoothed / smoothed.sum()).log())

    def forward(self, features: Float[Tensor, "*B size"]) -> Float[Tensor, "*B vocab"]:
        """Logits over the vocabulary."""
        return F.linear(features, self.weight, self.bias)

    def loss(
        self, features: Float[Tensor, "*B size"], labels: Int[Tensor, "*B"], *, label_smoothing: float = 0.0
    ) -> Float[Tensor, ""]:
        """Cross-entropy in nats, summed over the labels that are not <pad>."""
        if has_own_call(self, Readout):
            logits = self(features)
            return cross_entropy_of_logits(logits, labels, ignored=PAD, label_smoothing=label_smoothing)
        # in chunks, so that the (tokens, vocab) logits are never stored as a whole
        return chunked_cross_entropy(
            features, self.weight, self.bias, labels, ignored=PAD, label_smoothing=label_smoothing
        )
