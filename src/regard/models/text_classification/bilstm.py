"""BiLSTM: a bidirectional LSTM with max pooling over the words.

    h_i = [LSTM(x_1 .. x_i); LSTM(x_L .. x_i)],   z = max_i h_i,   p = softmax(W z + b)

Graves and Schmidhuber 2005, the bidirectional LSTM, https://doi.org/10.1016/j.neunet.2005.06.042; as a classifier of
sentences Tai, Socher and Manning 2015, section 5.1, https://arxiv.org/abs/1503.00075.

Departs from the papers: Graves and Schmidhuber label every frame of speech; Tai et al. use the two last states, while
max pooling over the positions is a stronger baseline (Conneau et al. 2017, https://arxiv.org/abs/1705.02364). Word
embeddings are not pretrained.
"""

from dataclasses import dataclass

from torch import nn

from regard.contracts import ClassifierOutput, PaddedTokens
from regard.layers import BidirectionalLSTM, WordDropout, max_of_words, random_words


@dataclass(frozen=True, kw_only=True)
class BiLSTMConfig:
    """Defaults are the sizes of Tai et al. (section 5.3); hidden_size is the size of each direction."""

    vocab_size: int = 30_000
    num_classes: int = 2
    embedding_size: int = 300
    hidden_size: int = 168
    dropout: float = 0.5
    word_dropout: float = 0.0


class BiLSTM(nn.Module):
    """A bidirectional LSTM and a linear layer; dropout on the words and on the input of the layer."""

    def __init__(self, config: BiLSTMConfig) -> None:
        super().__init__()
        self.config = config
        self.word_dropout = WordDropout(config.word_dropout)
        self.embedding = random_words(config.vocab_size, config.embedding_size)
        self.encoder = BidirectionalLSTM(input_size=config.embedding_size, hidden_size=config.hidden_size)
        self.dropout = nn.Dropout(config.dropout)
        self.output = nn.Linear(2 * config.hidden_size, config.num_classes)

    def forward(self, sentences: PaddedTokens) -> ClassifierOutput:
        """Logits of the classes."""
        # a batch of empty sentences has length 0, over which max is undefined
        sentences = sentences.pad_to(length=1)
        states = self.encoder(self.dropout(self.embedding(self.word_dropout(sentences.ids))), sentences.lengths)
        # states at padding are 0, which would exceed negative maxima; the mask excludes them
        return ClassifierOutput(logits=self.output(self.dropout(max_of_words(states, sentences.mask))))
