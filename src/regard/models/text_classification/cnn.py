"""CNN for sentences: convolutions of several widths with max pooling over the positions.

    c_i = relu(w . [x_i; ..; x_{i+h-1}] + b),   z = [max_i c_i of every filter],   p = softmax(W z + b)

Kim 2014, section 2. https://arxiv.org/abs/1408.5882
This is CNN-rand: word embeddings are not pretrained. As in the paper's code, sentences are padded on both sides, here
by h - 1.

Departs from the paper: the norms of the rows of W are not limited to 3, and windows without a word are ignored, so that
the output does not depend on the other sentences of the batch.
"""

from dataclasses import dataclass

import torch
import torch.nn.functional as F
from jaxtyping import Bool, Float
from torch import Tensor, nn

from regard.contracts import ClassifierOutput, PaddedTokens
from regard.layers import WordDropout, random_words


@dataclass(frozen=True, kw_only=True)
class CNNConfig:
    """Defaults are the published sizes (section 3.1); `num_maps` filters of each width."""

    vocab_size: int = 30_000
    num_classes: int = 2
    embedding_size: int = 300
    num_maps: int = 100
    widths: tuple[int, ...] = (3, 4, 5)
    dropout: float = 0.5
    word_dropout: float = 0.0


class CNN(nn.Module):
    """Filters of several widths, max pooling, and a linear layer."""

    def __init__(self, config: CNNConfig) -> None:
        super().__init__()
        if not config.widths or min(config.widths) < 1:
            raise ValueError(f"widths are {config.widths}, expected one or more, each at least 1 (the paper: 3, 4, 5).")
        self.config = config
        self.word_dropout = WordDropout(config.word_dropout)
        self.embedding = random_words(config.vocab_size, config.embedding_size)
        # width - 1 zeros on both sides, so that every word is in `width` windows and short sentences have some
        self.filters = nn.ModuleList(
            nn.Conv1d(config.embedding_size, config.num_maps, width, padding=width - 1) for width in config.widths
        )
        self.dropout = nn.Dropout(config.dropout)
        self.output = nn.Linear(config.num_maps * len(config.widths), config.num_classes)

    def forward(self, sentences: PaddedTokens) -> ClassifierOutput:
        """Logits of the classes."""
        # a batch of empty sentences has length 0, which convolutions reject
        sentences = sentences.pad_to(length=1)
        words = (
            # padding is zeroed, so that windows at the end of a sentence equal zero padding
            self.embedding(self.word_dropout(sentences.ids))
            .masked_fill(~sentences.mask.unsqueeze(-1), 0.0)
            # Conv1d expects channels first: (B, L, E) -> (B, E, L)
            .transpose(1, 2)
        )
        pooled = [max_over_windows(F.relu(filters(words)), sentences) for filters in self.filters]
        return ClassifierOutput(logits=self.output(self.dropout(torch.cat(pooled, dim=-1))))


def max_over_windows(outputs: Float[Tensor, "B maps windows"], sentences: PaddedTokens) -> Float[Tensor, "B maps"]:
    """The maximum of each filter over the windows that contain a word; 0 without such a window."""
    # windows = words + width - 1; the last one that contains a word of a sentence starts at its last word
    beyond = outputs.shape[-1] - sentences.ids.shape[1]
    windows = torch.arange(outputs.shape[-1], device=outputs.device)
    lengths = sentences.lengths[:, None]
    has_word: Bool[Tensor, "B windows"] = (windows < lengths + beyond) & (lengths > 0)
    # outputs of relu are 0 or more, so a window filled with 0 never exceeds a real one
    return outputs.masked_fill(~has_word.unsqueeze(1), 0.0).amax(dim=-1)
