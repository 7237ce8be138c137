"""Transformer encoder as a classifier: self-attention and mean pooling over the words.

    x = sqrt(d) E[words] + positions;  in every layer  x = norm(x + attend(x, x)),  x = norm(x + FFN(x))
    z = mean_i x_i,   p = softmax(W z + b)

Vaswani et al. 2017, the encoder of section 3.1. https://arxiv.org/abs/1706.03762
`regard.trace` shows the weights of every head.

Departs from the paper, which has no classifier: the mean over the words and the output layer are ours.
"""

from dataclasses import dataclass

from torch import nn

from regard._utils import find_variant
from regard.attention.positions import Sinusoidal
from regard.attention.scores import ScaledDot
from regard.contracts import ClassifierOutput, PaddedTokens, Score
from regard.layers import NORMS, Embedding, EncoderLayer, LayerSizes, PostNorm, WordDropout, mean_of_words


@dataclass(frozen=True, kw_only=True)
class TransformerEncoderConfig:
    """Defaults are the published base model (table 3)."""

    vocab_size: int = 37_000
    num_classes: int = 2
    hidden_size: int = 512
    num_layers: int = 6
    num_heads: int = 8
    feed_forward_size: int = 2048
    dropout: float = 0.1
    word_dropout: float = 0.0
    norm: str = "post"


def scaled_dot(head_size: int) -> Score:
    """The score of every head; its scale follows from the size of the queries."""
    return ScaledDot()


class TransformerEncoder(nn.Module):
    """A stack of encoder layers, and a linear layer on the mean of the words."""

    def __init__(self, config: TransformerEncoderConfig) -> None:
        super().__init__()
        self.config = config
        size = config.hidden_size
        sizes = LayerSizes(
            hidden_size=size,
            num_heads=config.num_heads,
            feed_forward_size=config.feed_forward_size,
            dropout=config.dropout,
            norm=find_variant(config.norm, NORMS, "norm"),
            make_score=scaled_dot,
        )
        self.word_dropout = WordDropout(config.word_dropout)
        self.embedding = Embedding(vocab_size=config.vocab_size, hidden_size=size)
        self.positions = Sinusoidal(hidden_size=size)
        self.dropout = nn.Dropout(config.dropout)
        self.layers = nn.ModuleList(EncoderLayer(sizes) for _ in range(config.num_layers))
        # post-norm layers end with a norm; pre-norm stacks need one at the top
        self.norm = nn.Identity() if sizes.norm is PostNorm else nn.LayerNorm(size)
        self.output = nn.Linear(size, config.num_classes)

    def forward(self, sentences: PaddedTokens) -> ClassifierOutput:
        """Logits of the classes."""
        # a batch of empty sentences gets one position of padding, so that attention has a key
        sentences = sentences.pad_to(length=1)
        states = self.dropout(self.positions(self.embedding(self.word_dropout(sentences.ids))))
        # (batch, heads, queries, keys)
        key_mask = sentences.mask[:, None, None, :]
        for layer in self.layers:
            states = layer(states, key_mask, None)
        # positions of padding have states too, but are excluded as keys and from the mean
        return ClassifierOutput(logits=self.output(self.dropout(mean_of_words(self.norm(states), sentences.mask))))
