"""Structured self-attention: a sentence is a matrix, each row of it another look at the words.

    H = BiLSTM(x),   A = softmax(W_2 tanh(W_1 H^T)),   M = A H
    p = softmax(W_o relu(W_h M + b_h) + b_o),   penalty ||A A^T - I||_F^2

Lin et al. 2017, section 2. https://arxiv.org/abs/1703.03130
The r rows of W_2 are learned queries, and tanh(W_1 h) the keys they are compared with by a dot product. The penalty
keeps the rows from looking at the same words.

Departs from the paper: words are not pretrained, and dropout acts on them too, not on the classifier alone.

Shapes: B batch, L words, r rows.
"""

from dataclasses import dataclass

import torch
from jaxtyping import Float
from torch import Tensor, nn

from regard.attention import Attention
from regard.attention.scores import Dot
from regard.contracts import ClassifierOutput, PaddedTokens
from regard.layers import BidirectionalLSTM, ClassifierHead, WordDropout, random_words, widened


@dataclass(frozen=True, kw_only=True)
class StructuredSelfAttentionConfig:
    """Defaults are the sizes reported for author profiling (section 4.1); hidden_size is that of each direction."""

    vocab_size: int = 30_000
    num_classes: int = 5
    embedding_size: int = 100
    hidden_size: int = 300
    attention_size: int = 350
    num_rows: int = 30
    classifier_size: int = 2000
    penalty: float = 1.0
    dropout: float = 0.5
    word_dropout: float = 0.0


class StructuredSelfAttention(nn.Module):
    """BiLSTM, r looks at its states, and a classifier that reads what all of them found."""

    def __init__(self, config: StructuredSelfAttentionConfig) -> None:
        super().__init__()
        if config.penalty < 0:
            raise ValueError(f"penalty is {config.penalty}, which would reward rows for looking alike. Give 0 or more.")
        self.config = config
        size = 2 * config.hidden_size
        self.word_dropout = WordDropout(config.word_dropout)
        self.embedding = random_words(config.vocab_size, config.embedding_size)
        self.dropout = nn.Dropout(config.dropout)
        self.encoder = BidirectionalLSTM(input_size=config.embedding_size, hidden_size=config.hidden_size)
        self.key_proj = nn.Linear(size, config.attention_size, bias=False)
        self.queries = nn.Parameter(torch.empty(config.num_rows, config.attention_size))
        nn.init.normal_(self.queries, std=config.attention_size**-0.5)
        self.attention = Attention(Dot())
        self.classifier = ClassifierHead(
            input_size=config.num_rows * size,
            hidden_size=config.classifier_size,
            num_classes=config.num_classes,
            dropout=config.dropout,
        )

    def forward(self, sentences: PaddedTokens) -> ClassifierOutput:
        """Scores of the classes, the rows of A, and how much they overlap."""
        length, sentences = sentences.ids.shape[1], widened(sentences)
        states = self.encoder(self.dropout(self.embedding(self.word_dropout(sentences.ids))), sentences.lengths)
        memory = self.attention.prepare_memory(torch.tanh(self.key_proj(states)), states, mask=sentences.mask)
        read = self.attention(self.queries.expand(len(states), -1, -1), memory, return_weights=True)
        assert read.weights is not None
        return ClassifierOutput(
            logits=self.classifier(read.context.flatten(1)),
            weights=read.weights[..., :length],
            # a sentence without words has no rows to keep apart
            penalty=self.config.penalty * (overlap(read.weights) * (sentences.lengths > 0)).sum(),
        )


def overlap(weights: Float[Tensor, "B rows L"]) -> Float[Tensor, " B"]:
    """||A A^T - I||_F^2 of each sentence: 0 where every row looks at one word, and each at another."""
    same = torch.eye(weights.shape[1], device=weights.device, dtype=weights.dtype)
    return (weights @ weights.transpose(1, 2) - same).square().sum(dim=(1, 2))
