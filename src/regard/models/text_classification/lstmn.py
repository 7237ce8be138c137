"""LSTMN encoder: an LSTMN over the words of a text, its hidden states averaged.

    h_1 .. h_L = hidden tape (layers/lstmn.py),   z = mean_i h_i,   p = softmax(W_2 relu(W_1 z + b_1) + b_2)

Cheng, Dong and Lapata 2016, sections 3 and 5.2. https://arxiv.org/abs/1601.06733
Each word attends to the words before it: `regard.trace` records these weights.

Departs from the paper: words start at random, where the paper has GloVe, and dropout acts on them too.
"""

from dataclasses import dataclass

from torch import nn

from regard.contracts import ClassifierOutput, PaddedTokens
from regard.layers import ClassifierHead, LSTMNStack, WordDropout, mean_of_words, random_words


@dataclass(frozen=True, kw_only=True)
class LSTMNEncoderConfig:
    """Defaults are the published sizes (section 5.2); the classifier has the hidden size of the cells."""

    vocab_size: int = 30_000
    num_classes: int = 2
    embedding_size: int = 300
    hidden_size: int = 168
    num_layers: int = 1
    dropout: float = 0.5
    word_dropout: float = 0.0


class LSTMNEncoder(nn.Module):
    """A stack of LSTMN cells, and a classifier over the mean of the top hidden tape."""

    def __init__(self, config: LSTMNEncoderConfig) -> None:
        super().__init__()
        self.config = config
        size = config.hidden_size
        self.word_dropout = WordDropout(config.word_dropout)
        self.embedding = random_words(config.vocab_size, config.embedding_size)
        self.dropout = nn.Dropout(config.dropout)
        self.encoder = LSTMNStack(
            input_size=config.embedding_size, hidden_size=size, num_layers=config.num_layers, dropout=config.dropout
        )
        self.classifier = ClassifierHead(
            input_size=size, hidden_size=size, num_classes=config.num_classes, dropout=config.dropout
        )

    def forward(self, sentences: PaddedTokens) -> ClassifierOutput:
        """Scores of the classes."""
        # as in the other classifiers, a batch of empty sentences gets one position of padding
        sentences = sentences.pad_to(length=1)
        # padding follows the words and no cell attends to later ones; the mean below leaves it out
        tapes = self.encoder.run(self.dropout(self.embedding(self.word_dropout(sentences.ids))))
        return ClassifierOutput(logits=self.classifier(mean_of_words(tapes[-1].hidden, sentences.mask)))
