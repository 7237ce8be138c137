"""CNN for sentences: every filter looks for one kind of phrase, wherever it stands.

    c_i = relu(w . [x_i; ..; x_{i+h-1}] + b),   z = [max_i c_i of every filter],   p = softmax(W z + b)

Kim 2014, section 2. https://arxiv.org/abs/1408.5882
CNN-rand: the words start at random. As in the paper's code a sentence has empty places on either side, here h - 1.

Departs from the paper: the rows of W are not held to norm 3, and a window that
touches no word does not count, so that a sentence's answer does not depend on the longest one of its batch.
"""

from dataclasses import dataclass

import torch
import torch.nn.functional as F
from jaxtyping import Bool, Float
from torch import Tensor, nn

from regard.contracts import ClassifierOutput, PaddedTokens
from regard.layers import WordDropout, random_words, widened


@dataclass(frozen=True, kw_only=True)
class CNNConfig:
    """Defaults are the published sizes (section 3.1): so many maps of each width."""

    vocab_size: int = 30_000
    num_classes: int = 2
    embedding_size: int = 300
    num_maps: int = 100
    widths: tuple[int, ...] = (3, 4, 5)
    dropout: float = 0.5
    word_dropout: float = 0.0


class CNN(nn.Module):
    """Filters of several widths, the largest answer of each, one layer."""

    def __init__(self, config: CNNConfig) -> None:
        super().__init__()
        if not config.widths or min(config.widths) < 1:
            raise ValueError(
                f"widths are {config.widths}, expected at least one, of 1 word or more (the paper: 3, 4, 5)."
            )
        self.config = config
        self.word_dropout = WordDropout(config.word_dropout)
        self.embedding = random_words(config.vocab_size, config.embedding_size)
        self.filters = nn.ModuleList(
            nn.Conv1d(config.embedding_size, config.num_maps, width, padding=width - 1) for width in config.widths
        )
        self.dropout = nn.Dropout(config.dropout)
        self.output = nn.Linear(config.num_maps * len(config.widths), config.num_classes)

    def forward(self, sentences: PaddedTokens) -> ClassifierOutput:
        """Scores of the classes; nothing is looked at more than anything else."""
        sentences = widened(sentences)
        words = (
            self.embedding(self.word_dropout(sentences.ids))
            .masked_fill(~sentences.mask.unsqueeze(-1), 0.0)
            .transpose(1, 2)
        )
        found = [largest(F.relu(filters(words)), sentences) for filters in self.filters]
        return ClassifierOutput(logits=self.output(self.dropout(torch.cat(found, dim=-1))))


def largest(answers: Float[Tensor, "B maps windows"], sentences: PaddedTokens) -> Float[Tensor, "B maps"]:
    """The largest answer of each filter among the windows that touch a word, and 0 where none does."""
    beyond = answers.shape[-1] - sentences.ids.shape[1]
    windows = torch.arange(answers.shape[-1], device=answers.device)
    lengths = sentences.lengths[:, None]
    touches: Bool[Tensor, "B windows"] = (windows < lengths + beyond) & (lengths > 0)
    return answers.masked_fill(~touches.unsqueeze(1), 0.0).amax(dim=-1)
