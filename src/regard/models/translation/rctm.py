"""RCTM I: the first neural translation system; a convolution folds the source into one vector.

Kalchbrenner and Blunsom 2013, "Recurrent Continuous Translation Models", sections 3 and 4. https://aclanthology.org/D13-1176

    E_1 = words of the source, a column each
    E_i = sigmoid(E_{i-1} * K_i)            K_i of width i = 2, 3, .. ; one kernel per row, narrow, so that columns fall
    e   = E * L                             L as wide as what is left: one column
    h_t = sigmoid(I y_{t-1} + R h_{t-1} + S e)
    p(y_t) = softmax(O h_t)

The middle and the last folds have kernels of their own, K_i and L_i for each width. A source of one token is its word.

Departs from the paper: the output is one softmax, not one over classes and one within; the last fold has no sigmoid. A
source too long for the widest kernel repeats it until it spans what is left, so that any length is read.

Shapes: B batch, C columns, E embedding, W widest kernel.
"""

from collections.abc import Iterator
from dataclasses import dataclass
from itertools import chain, repeat

import torch
import torch.nn.functional as F
from jaxtyping import Float, Int
from torch import Tensor, nn

from regard.contracts import ModelOutput, PaddedTokens, Step
from regard.layers import Advanced, Readout, unroll_features


@dataclass(frozen=True, kw_only=True)
class RCTMConfig:
    """Defaults are the published sizes but for the vocabularies, which were those of the paper's text.

    Up to `1 + 2 + .. + max_width` source tokens (120 for 15) every fold has a kernel of its own.
    """

    source_vocab_size: int = 30_000
    target_vocab_size: int = 30_000
    embedding_size: int = 256
    hidden_size: int = 256
    max_width: int = 15
    dropout: float = 0.0

    def __post_init__(self) -> None:
        if self.max_width < 2:
            raise ValueError(f"max_width is {self.max_width}, expected 2 or more: a fold joins neighbours.")


class ConvolutionalSentenceModel(nn.Module):
    """Columns to one column, by narrow convolutions of growing width with a kernel for each row."""

    def __init__(self, *, size: int, max_width: int) -> None:
        super().__init__()
        self.max_width = max_width
        # a sigmoid's slope is at most a quarter: kernels four times as large keep the signal's size from fold to fold
        self.middle, self.last = (
            nn.ParameterList(torch.randn(size, width) * 4 * width**-0.5 for width in range(2, max_width + 1))
            for _ in range(2)
        )

    def widths(self) -> Iterator[int]:
        """2, 3, .., the widest, and that again for as long as columns are left."""
        return chain(range(2, self.max_width), repeat(self.max_width))

    def forward(self, columns: Float[Tensor, "B E C"], lengths: Int[Tensor, " B"]) -> Float[Tensor, "B E"]:
        """Each row's vector, folded by its own length.

        All rows share the middle folds: a row's own columns stay in front, and what padding makes stays behind them.
        Where its own columns fit the width, the row's last fold is taken.
        """
        last = torch.stack([F.pad(kernel, (0, self.max_width - kernel.shape[1])) for kernel in self.last])
        sentence, left = columns[:, :, 0], lengths
        for width in self.widths():
            ends = (left > 1) & (left <= width)
            span = min(width, columns.shape[2])
            kernels = last[:, :, :span][(left - 2).clamp(0, self.max_width - 2)]
            sentence = torch.where(ends[:, None], (columns[:, :, :span] * kernels).sum(dim=-1), sentence)
            if columns.shape[2] <= width:
                break
            left = torch.where(left > width, left - width + 1, 0)
            kernel = self.middle[width - 2][:, None]
            columns = torch.sigmoid(F.conv1d(columns, kernel, groups=kernel.shape[0]))
        return sentence


@dataclass(frozen=True, kw_only=True)
class Encoded:
    """The sentence's one vector, already mapped by S."""

    sentence: Float[Tensor, "B H"]


class RCTM(nn.Module):
    """A recurrent language model whose every state is told the source."""

    def __init__(self, config: RCTMConfig) -> None:
        super().__init__()
        self.config = config
        self.source_embedding = nn.Embedding(config.source_vocab_size, config.embedding_size)
        self.target_embedding = nn.Embedding(config.target_vocab_size, config.embedding_size)
        self.sentence_model = ConvolutionalSentenceModel(size=config.embedding_size, max_width=config.max_width)
        self.word_proj = nn.Linear(config.embedding_size, config.hidden_size)
        self.sentence_proj = nn.Linear(config.embedding_size, config.hidden_size, bias=False)
        self.state_proj = nn.Linear(config.hidden_size, config.hidden_size, bias=False)
        self.dropout = nn.Dropout(config.dropout)
        self.readout = Readout(hidden_size=config.hidden_size, vocab_size=config.target_vocab_size)

    def encode(self, source: PaddedTokens) -> Encoded:
        """Fold the source into one vector."""
        words = self.dropout(self.source_embedding(source.ids))
        return Encoded(sentence=self.sentence_proj(self.sentence_model(words.transpose(1, 2), source.lengths)))

    def start(self, encoded: Encoded) -> Float[Tensor, "B H"]:
        """Nothing was said yet."""
        return torch.zeros_like(encoded.sentence)

    def advance(self, word: Float[Tensor, "B H"], state: Float[Tensor, "B H"], encoded: Encoded) -> Advanced:
        """The next state from a mapped word; the readout sees the state itself."""
        state = torch.sigmoid(word + encoded.sentence + self.state_proj(state))
        return Advanced(features=state, state=state)

    def step(self, tokens: Int[Tensor, " B"], state: Float[Tensor, "B H"], encoded: Encoded) -> Step:
        """Read one target token and predict the next."""
        done = self.advance(self._words(tokens), state, encoded)
        return Step(logits=self.readout(self.dropout(done.features)), state=done.state)

    def features(self, source: PaddedTokens, target: PaddedTokens) -> ModelOutput:
        """The state at every target position; words are mapped all at once."""
        encoded = self.encode(source)
        states = unroll_features(self.advance, self._words(target.ids), state=self.start(encoded), encoded=encoded)
        return ModelOutput(features=self.dropout(states))

    def forward(self, source: PaddedTokens, target: PaddedTokens) -> Float[Tensor, "B T vocab"]:
        """Logits for every target position, given the true previous tokens."""
        return self.readout(self.features(source, target).features)

    def _words(self, ids: Int[Tensor, "*B"]) -> Float[Tensor, "*B H"]:
        """What each word says to the state."""
        return self.word_proj(self.dropout(self.target_embedding(ids)))
