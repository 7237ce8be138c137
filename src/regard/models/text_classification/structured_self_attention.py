"""Structured self-attention: a sentence is a matrix of r weighted sums of its words.

    H = BiLSTM(x),   A = softmax(W_2 tanh(W_1 H^T)),   M = A H
    p = softmax(W_o relu(W_h M + b_h) + b_o),   penalty ||A A^T - I||_F^2

Lin et al. 2017, section 2. https://arxiv.org/abs/1703.03130
The r rows of W_2 are learned queries, and tanh(W_1 h) are the keys; the score is their dot product. The penalty keeps
the rows from attending to the same words.

Departs from the paper: word embeddings are not pretrained, and dropout acts on them too, not only on the classifier.

Shapes: B batch, L words, r rows.
"""

from dataclasses import dataclass

import torch
from jaxtyping import Float
from torch import Tensor, nn

from regard.attention import Attention
from regard.attention.scores import Dot
from regard.contracts import ClassifierOutput, PaddedTokens
from regard.layers import BidirectionalLSTM, ClassifierHead, WordDropout, random_words


@dataclass(frozen=True, kw_only=True)
class StructuredSelfAttentionConfig:
    """Defaults are the sizes reported for author profiling (section 4.1); hidden_size is the size of each direction."""

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
    """A BiLSTM, r attention rows over its states, and a classifier on their concatenated contexts."""

    def __init__(self, config: StructuredSelfAttentionConfig) -> None:
        super().__init__()
        if config.penalty < 0:
            raise ValueError(
                f"penalty is {config.penalty}, expected 0 or more: a negative penalty would reward equal rows."
            )
        self.config = config
        size = 2 * config.hidden_size
        self.word_dropout = WordDropout(config.word_dropout)
        self.embedding = random_words(config.vocab_size, config.embedding_size)
        self.dropout = nn.Dropout(config.dropout)
        self.encoder = BidirectionalLSTM(input_size=config.embedding_size, hidden_size=config.hidden_size)
        self.key_proj = nn.Linear(size, config.attention_size, bias=False)
        self.queries = nn.Parameter(torch.empty(config.num_rows, config.attention_size))
        # keys are bounded by tanh, so this keeps the initial scores at a variance of 1 or less
        nn.init.normal_(self.queries, std=config.attention_size**-0.5)
        self.attention = Attention(Dot())
        self.classifier = ClassifierHead(
            input_size=config.num_rows * size,
            hidden_size=config.classifier_size,
            num_classes=config.num_classes,
            dropout=config.dropout,
        )

    def forward(self, sentences: PaddedTokens) -> ClassifierOutput:
        """Logits of the classes, the rows of A, and the penalty on their overlap."""
        # the length before widening: the returned weights have one column per position of the caller's batch
        length, sentences = sentences.ids.shape[1], sentences.pad_to(length=1)
        states = self.encoder(self.dropout(self.embedding(self.word_dropout(sentences.ids))), sentences.lengths)
        # keys tanh(W_1 h), values h
        memory = self.attention.prepare_memory(torch.tanh(self.key_proj(states)), states, mask=sentences.mask)
        # the same r queries for every sentence (B, r, attention_size)
        attended = self.attention(self.queries.expand(len(states), -1, -1), memory, return_weights=True)
        assert attended.weights is not None
        return ClassifierOutput(
            # (B, r, 2 H) -> (B, r x 2 H)
            logits=self.classifier(attended.context.flatten(1)),
            # without the column that `pad_to` may have added
            weights=attended.weights[..., :length],
            # sentences without words have no penalty
            penalty=self.config.penalty * (overlap(attended.weights) * (sentences.lengths > 0)).sum(),
        )


def overlap(weights: Float[Tensor, "B rows L"]) -> Float[Tensor, " B"]:
    """||A A^T - I||_F^2 of each sentence; 0 if every row attends to one word, and all to different words."""
    identity = torch.eye(weights.shape[1], device=weights.device, dtype=weights.dtype)
    return (weights @ weights.transpose(1, 2) - identity).square().sum(dim=(1, 2))
