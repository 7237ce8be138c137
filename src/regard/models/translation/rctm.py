"""RCTM I: recurrent continuous translation; convolutions reduce the source to one vector.

Kalchbrenner and Blunsom 2013, "Recurrent Continuous Translation Models", sections 3 and 4. https://aclanthology.org/D13-1176

    E_1 = embeddings of the source words, one column per word
    E_i = sigmoid(E_{i-1} * K_i)            K_i of width i = 2, 3, .. ; one kernel per row, no padding
    e   = E * L                             L as wide as the remaining columns: one column
    h_t = sigmoid(I y_{t-1} + R h_{t-1} + S e)
    p(y_t) = softmax(O h_t)

Intermediate and last convolutions have separate kernels, K_i and L_i, for each width. A source of one token is its
embedding.

Departs from the paper: the output is one softmax, not one over classes and one within; the last convolution has no
sigmoid. For sources too long for the widest kernel, that kernel is applied repeatedly until it spans the remaining
columns, so that any length is supported.

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
from regard.layers import Readout, unroll_features


@dataclass(frozen=True, kw_only=True)
class RCTMConfig:
    """Defaults are the published sizes, except the vocabularies, which depend on the paper's corpus.

    Up to `1 + 2 + .. + max_width` source tokens (120 for 15) every convolution has its own kernel.
    """

    source_vocab_size: int = 30_000
    target_vocab_size: int = 30_000
    embedding_size: int = 256
    hidden_size: int = 256
    max_width: int = 15
    dropout: float = 0.0

    def __post_init__(self) -> None:
        if self.max_width < 2:
            raise ValueError(f"max_width is {self.max_width}, expected 2 or more: a convolution joins neighbours.")


class ConvolutionalSentenceModel(nn.Module):
    """Reduces columns to one column by unpadded depthwise convolutions of increasing width."""

    def __init__(self, *, size: int, max_width: int) -> None:
        super().__init__()
        self.max_width = max_width
        # the slope of a sigmoid is at most 1/4, so kernels four times as large keep the scale of the signal
        self.middle, self.last = (
            nn.ParameterList(torch.randn(size, width) * 4 * width**-0.5 for width in range(2, max_width + 1))
            for _ in range(2)
        )

    def widths(self) -> Iterator[int]:
        """2, 3, .., max_width, max_width, .."""
        # the widest kernel is not part of the range: `repeat` supplies it, also the first time
        return chain(range(2, self.max_width), repeat(self.max_width))

    def forward(self, columns: Float[Tensor, "B E C"], lengths: Int[Tensor, " B"]) -> Float[Tensor, "B E"]:
        """One vector per batch element, which depends only on its own columns.

        All batch elements share the intermediate convolutions: columns computed from padding stay behind an element's
        own columns. When these fit the width, the last convolution of that element is applied.
        """
        # last-convolution kernels of all widths in one tensor (W - 1, E, W), to select one per batch element
        last = torch.stack([F.pad(kernel, (0, self.max_width - kernel.shape[1])) for kernel in self.last])
        # a source of one token has no convolution: its embedding is the result from the start
        sentence, num_columns = columns[:, :, 0], lengths
        for width in self.widths():
            is_last = (num_columns > 1) & (num_columns <= width)
            # the batch may have fewer columns than the kernel; no element has more real ones
            span = min(width, columns.shape[2])
            # width 2 is at index 0; elements for which this is not the last width are discarded by `where`
            kernels = last[:, :, :span][(num_columns - 2).clamp(0, self.max_width - 2)]
            # a kernel is 0 beyond its own width, so columns that come from padding add nothing
            sentence = torch.where(is_last[:, None], (columns[:, :, :span] * kernels).sum(dim=-1), sentence)
            # no batch element has more columns than this
            if columns.shape[2] <= width:
                break
            # 0 marks an element whose vector is complete, so that no later width changes it
            num_columns = torch.where(num_columns > width, num_columns - width + 1, 0)
            # groups = rows: each row of the embedding has its own kernel
            kernel = self.middle[width - 2][:, None]
            columns = torch.sigmoid(F.conv1d(columns, kernel, groups=kernel.shape[0]))
        return sentence


@dataclass(frozen=True, kw_only=True)
class Encoded:
    """The vector of the source, already multiplied by S."""

    sentence: Float[Tensor, "B H"]


class RCTM(nn.Module):
    """A recurrent language model that receives the source vector at every step."""

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
        """Reduce the source to one vector."""
        # convolutions need channels first: (B, L, E) -> (B, E, L)
        words = self.dropout(self.source_embedding(source.ids))
        return Encoded(sentence=self.sentence_proj(self.sentence_model(words.transpose(1, 2), source.lengths)))

    def start(self, encoded: Encoded) -> Float[Tensor, "B H"]:
        """A state of zeros."""
        return torch.zeros_like(encoded.sentence)

    def advance(self, word: Float[Tensor, "B H"], state: Float[Tensor, "B H"], encoded: Encoded) -> ModelOutput:
        """The next state from a projected word; the state is also the input of the output layer."""
        state = torch.sigmoid(word + encoded.sentence + self.state_proj(state))
        return ModelOutput(features=state, state=state)

    def step(self, tokens: Int[Tensor, " B"], state: Float[Tensor, "B H"], encoded: Encoded) -> Step:
        """Consume one target token and predict the next."""
        advanced = self.advance(self._words(tokens), state, encoded)
        return Step(logits=self.readout(self.dropout(advanced.features)), state=advanced.state)

    def features(self, source: PaddedTokens, target: PaddedTokens) -> ModelOutput:
        """The state at every target position; words are projected in parallel."""
        encoded = self.encode(source)
        # only the recurrence runs step by step; S e and I y are computed before the loop
        states = unroll_features(self.advance, self._words(target.ids), state=self.start(encoded), encoded=encoded)
        return ModelOutput(features=self.dropout(states))

    def forward(self, source: PaddedTokens, target: PaddedTokens) -> Float[Tensor, "B T vocab"]:
        """Logits for every target position, given the true previous tokens."""
        return self.readout(self.features(source, target).features)

    def _words(self, ids: Int[Tensor, "*B"]) -> Float[Tensor, "*B H"]:
        """Projected embeddings."""
        return self.word_proj(self.dropout(self.target_embedding(ids)))
