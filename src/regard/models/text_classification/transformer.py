"""Transformer encoder as a classifier: every word looks at every other, and their mean is the sentence.

    x = sqrt(d) E[words] + positions;  in every layer  x = norm(x + attend(x, x)),  x = norm(x + FFN(x))
    z = mean_i x_i,   p = softmax(W z + b)

Vaswani et al. 2017, the encoder of section 3.1. https://arxiv.org/abs/1706.03762
Every head of every layer looks from each word at all of them: `regard.trace` shows it.

Departs from the paper, which classifies nothing: the mean over the words and the layer on top are ours.
"""

from dataclasses import dataclass

from torch import nn

from regard._utils import find_variant
from regard.attention.positions import Sinusoidal
from regard.attention.scores import ScaledDot
from regard.contracts import ClassifierOutput, PaddedTokens, Score
from regard.layers import NORMS, Embedding, EncoderLayer, LayerSizes, PostNorm, WordDropout, mean_of_words, widened


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
    """The score of every head; it takes its scale from the queries."""
    return ScaledDot()


class TransformerEncoder(nn.Module):
    """A stack of encoder layers, and one layer over the mean of the words."""

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
        # the paper's order ends every layer with a norm; the other order needs one at the top
        self.norm = nn.Identity() if sizes.norm is PostNorm else nn.LayerNorm(size)
        self.output = nn.Linear(size, config.num_classes)

    def forward(self, sentences: PaddedTokens) -> ClassifierOutput:
        """Scores of the classes."""
        sentences = widened(sentences)
        states = self.dropout(self.positions(self.embedding(self.word_dropout(sentences.ids))))
        # masked as (batch, heads, queries, keys)
        keys = sentences.mask[:, None, None, :]
        for layer in self.layers:
            states = layer(states, keys, None)
        return ClassifierOutput(logits=self.output(self.dropout(mean_of_words(self.norm(states), sentences.mask))))
