"""Parts of text classifiers: word embeddings, word dropout, pooling and the classifier head.

Shapes: B batch, L length.
"""

import torch
import torch.nn.functional as F
from jaxtyping import Bool, Float, Int
from torch import Tensor, nn

from regard.contracts import UNK


def random_words(vocab_size: int, input_size: int) -> nn.Embedding:
    """An embedding initialised uniformly in [-0.25, 0.25], about the scale of trained word vectors.

    Kim 2014, section 3.2. Small data sets train poorly from embeddings of norm sqrt(size).
    """
    table = nn.Embedding(vocab_size, input_size)
    nn.init.uniform_(table.weight, -0.25, 0.25)
    return table


class WordDropout(nn.Module):
    """Replaces this share of the words by <unk> in training, which also trains the embedding of <unk>.

    Iyyer et al. 2015, section 3.3, drop the words instead. https://aclanthology.org/P15-1162
    """

    def __init__(self, share: float = 0.0) -> None:
        super().__init__()
        # `not` of the whole range, so that NaN is refused too
        if not 0.0 <= share <= 1.0:
            raise ValueError(f"word_dropout is {share}, expected a share between 0 and 1.")
        self.share = share

    def forward(self, ids: Int[Tensor, "*B"]) -> Int[Tensor, "*B"]:
        """The ids, some of them replaced."""
        if not self.training or not self.share:
            return ids
        # padding may be replaced as well: models mask it by the lengths, not by the ids
        return ids.masked_fill(torch.rand(ids.shape, device=ids.device) < self.share, UNK)


def mean_of_words(states: Float[Tensor, "B L size"], mask: Bool[Tensor, "B L"]) -> Float[Tensor, "B size"]:
    """The mean over the real positions; zeros without any."""
    # masked_fill instead of a product, which would keep a NaN or an infinity of the padding
    total = states.masked_fill(~mask.unsqueeze(-1), 0.0).sum(dim=1)
    # clamp: an empty sentence has sum 0 and length 0
    return total / mask.sum(dim=1, keepdim=True).clamp(min=1).to(total.dtype)


def max_of_words(states: Float[Tensor, "B L size"], mask: Bool[Tensor, "B L"]) -> Float[Tensor, "B size"]:
    """The maximum of each feature over the real positions; zeros without any."""
    # -inf on padding, so that it is never the maximum
    largest = states.masked_fill(~mask.unsqueeze(-1), -torch.inf).amax(dim=1)
    return largest.masked_fill(~mask.any(dim=1, keepdim=True), 0.0)


class ClassifierHead(nn.Module):
    """logits = W_2 relu(W_1 x + b_1) + b_2, with dropout on the input of both layers."""

    def __init__(self, *, input_size: int, hidden_size: int, num_classes: int, dropout: float = 0.0) -> None:
        super().__init__()
        self.hidden = nn.Linear(input_size, hidden_size)
        self.output = nn.Linear(hidden_size, num_classes)
        self.dropout = nn.Dropout(dropout)

    def forward(self, states: Float[Tensor, "B size"]) -> Float[Tensor, "B classes"]:
        """Logits of the classes."""
        return self.output(self.dropout(F.relu(self.hidden(self.dropout(states)))))
