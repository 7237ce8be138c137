"""RCTM I and II: recurrent continuous translation; convolutions represent the source, without attention.

Kalchbrenner and Blunsom 2013, "Recurrent Continuous Translation Models", sections 3 and 4. https://aclanthology.org/D13-1176

    E_1 = embeddings of the source words, one column per word
    E_i = sigmoid(E_{i-1} * K_i)            K_i of width i = 2, 3, .. ; one kernel per row, no padding
    h_t = sigmoid(I y_{t-1} + R h_{t-1} + S e_t),   p(y_t) = softmax(O h_t)

    I     e_t = e = E * L                   L as wide as the remaining columns: one column for all steps
    II    F_n = T E_n, stretched to the columns of the target's n-grams
          F_{i-1} = sigmoid(F_i *^T K'_i)   unfolded by transposed convolutions to one column per target word
          e_t = F_1 at position t

Intermediate and last convolutions have separate kernels, K_i and L_i, for each width. A source of one token is its
embedding in RCTM I. `source_model` "none" is the same recurrent language model without a source: a control.

Departs from the paper: the output is one softmax, not one over classes and one within; the last convolution has no
sigmoid; dropout. For sources too long for the widest kernel of RCTM I, that kernel is applied repeatedly until it spans
the remaining columns. Initialisation is ours: a kernel begins as one tap per row with noise of 0.1, and R orthogonal;
`activation` "tanh" replaces every sigmoid. With the paper's sigmoid both are multiplied by 4, because its slope is at
most 1/4. RCTM II: the paper gives the target a distribution of its length and unfolds to the true length, which is
unknown in decoding; here it is `length_ratio` times that of the source, and later steps use the last column. Source
columns are stretched to target columns by linear interpolation.

Shapes: B batch, C columns, E embedding, W widest kernel, M target columns.
"""

from collections.abc import Callable, Iterator
from dataclasses import dataclass
from itertools import chain, repeat

import torch
import torch.nn.functional as F
from jaxtyping import Float, Int
from torch import Tensor, nn

from regard._utils import find_variant
from regard.contracts import ModelOutput, PaddedTokens, Step
from regard.layers import Readout, unroll_features

Activation = Callable[[Tensor], Tensor]
ACTIVATIONS: dict[str, Activation] = {"sigmoid": torch.sigmoid, "tanh": torch.tanh}
GAINS = {"sigmoid": 4.0, "tanh": 1.0}
"""The inverse of the largest slope, which keeps the scale of a signal at the start."""
NOISE = 0.1


@dataclass(frozen=True, kw_only=True)
class RCTMConfig:
    """Defaults are the published sizes of RCTM I, except the vocabularies, which depend on the paper's corpus.

    `source_model` is one of SOURCE_MODELS. Up to `1 + 2 + .. + max_width` source tokens (120 for 15) every convolution
    of RCTM I has its own kernel; RCTM II represents n-grams with n = 1 + 1 + 2 + .. + (ngram_width - 1).
    """

    source_vocab_size: int = 30_000
    target_vocab_size: int = 30_000
    embedding_size: int = 256
    hidden_size: int = 256
    source_model: str = "fold"
    activation: str = "sigmoid"
    max_width: int = 15
    ngram_width: int = 3
    length_ratio: float = 1.0
    dropout: float = 0.0

    def __post_init__(self) -> None:
        for name in ("max_width", "ngram_width"):
            if (width := getattr(self, name)) < 2:
                raise ValueError(f"{name} is {width}, expected 2 or more: a convolution joins neighbours.")
        if not self.length_ratio > 0:
            raise ValueError(f"length_ratio is {self.length_ratio}, expected more than 0.")


def tap_kernel(size: int, width: int, gain: float) -> Float[Tensor, "E width"]:
    """Each row begins as one random tap: it passes one column on, where a dense kernel would blur all of them."""
    taps = F.one_hot(torch.randint(width, (size,)), width).float()
    return gain * (taps + NOISE * torch.randn(size, width))


def tap_kernels(size: int, widest: int, gain: float) -> nn.ParameterList:
    """A kernel of each width from 2 to `widest`."""
    return nn.ParameterList(tap_kernel(size, width, gain) for width in range(2, widest + 1))


@dataclass(frozen=True, kw_only=True)
class SourceColumns:
    """What the steps receive of the source: column min(t, length - 1) at step t."""

    columns: Float[Tensor, "B M E"]
    lengths: Int[Tensor, " B"]


class ConvolutionalSentenceModel(nn.Module):
    """RCTM I: reduces the source to one column by unpadded depthwise convolutions of increasing width."""

    def __init__(self, config: RCTMConfig) -> None:
        super().__init__()
        size, gain = config.embedding_size, GAINS[config.activation]
        self.max_width, self.activation = config.max_width, ACTIVATIONS[config.activation]
        self.middle = tap_kernels(size, config.max_width, gain)
        # no activation follows the last convolution
        self.last = tap_kernels(size, config.max_width, 1.0)

    def widths(self) -> Iterator[int]:
        """2, 3, .., max_width, max_width, .."""
        # the widest kernel is not part of the range: `repeat` supplies it, also the first time
        return chain(range(2, self.max_width), repeat(self.max_width))

    def forward(self, columns: Float[Tensor, "B E C"], lengths: Int[Tensor, " B"]) -> SourceColumns:
        """One column per batch element, which depends only on its own columns.

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
            # 0 marks an element whose column is complete, so that no later width changes it
            num_columns = torch.where(num_columns > width, num_columns - width + 1, 0)
            # groups = rows: each row of the embedding has its own kernel
            columns = self.activation(fold(columns, self.middle[width - 2]))
        return SourceColumns(columns=sentence[:, None], lengths=torch.ones_like(lengths))


class ConvolutionalNGramModel(nn.Module):
    """RCTM II: folds the source to its n-grams, maps them to the target's, and unfolds these to words."""

    def __init__(self, config: RCTMConfig) -> None:
        super().__init__()
        size, gain = config.embedding_size, GAINS[config.activation]
        self.length_ratio, self.activation = config.length_ratio, ACTIVATIONS[config.activation]
        self.ngram_size = 1 + sum(range(1, config.ngram_width))
        self.folds, self.unfolds = (tap_kernels(size, config.ngram_width, gain) for _ in range(2))
        self.transfer = nn.Linear(size, size, bias=False)

    def forward(self, columns: Float[Tensor, "B E C"], lengths: Int[Tensor, " B"]) -> SourceColumns:
        """A column per expected target position."""
        before = self.ngram_size - 1
        # a source with fewer words than an n-gram has one n-gram, whose other columns are zeros
        columns = columns.masked_fill(
            torch.arange(columns.shape[2], device=lengths.device) >= lengths[:, None, None], 0
        )
        columns = F.pad(columns, (0, max(self.ngram_size - columns.shape[2], 0)))
        widest = columns.shape[2]
        for kernel in self.folds:
            columns = self.activation(fold(columns, kernel))
        num_source = lengths.clamp_min(self.ngram_size) - before
        target_lengths = self.target_lengths(lengths)
        num_target = target_lengths - before
        # as many columns as the longest target of the batch may have, from the shape: reading lengths would wait for
        # the device; one more, because the product is rounded in another precision
        num_columns = max(int(self.length_ratio * widest) + 1, self.ngram_size) - before
        columns = stretch(columns, num_source, num_target, num_columns)
        columns = self.transfer(columns.transpose(1, 2)).transpose(1, 2)
        for kernel in reversed(self.unfolds):
            # columns of padding would enter their neighbours
            inside = torch.arange(columns.shape[2], device=lengths.device) < num_target[:, None, None]
            columns = self.activation(unfold(columns.masked_fill(~inside, 0), kernel))
            num_target = num_target + kernel.shape[1] - 1
        return SourceColumns(columns=columns.transpose(1, 2), lengths=target_lengths)

    def target_lengths(self, lengths: Int[Tensor, " B"]) -> Int[Tensor, " B"]:
        """The expected number of target tokens, at least an n-gram."""
        return (lengths * self.length_ratio).round().long().clamp_min(self.ngram_size)


class NoSource(nn.Module):
    """The same language model without a source."""

    def __init__(self, config: RCTMConfig) -> None:
        super().__init__()
        self.hidden_size = config.hidden_size

    def forward(self, columns: Float[Tensor, "B none C"], lengths: Int[Tensor, " B"]) -> SourceColumns:
        """A column of zeros, as wide as the states: there is no projection either."""
        zeros = columns.new_zeros(len(lengths), 1, self.hidden_size)
        return SourceColumns(columns=zeros, lengths=torch.ones_like(lengths))


SOURCE_MODELS: dict[str, Callable[[RCTMConfig], nn.Module]] = {
    "fold": ConvolutionalSentenceModel,
    "ngrams": ConvolutionalNGramModel,
    "none": NoSource,
}
"""RCTM I, RCTM II, and the control."""


def fold(columns: Float[Tensor, "B E C"], kernel: Float[Tensor, "E width"]) -> Float[Tensor, "B E less"]:
    """A convolution without padding; groups = rows: each row of the embedding has its own kernel."""
    return F.conv1d(columns, kernel[:, None], groups=kernel.shape[0])


def unfold(columns: Float[Tensor, "B E C"], kernel: Float[Tensor, "E width"]) -> Float[Tensor, "B E more"]:
    """The transposed convolution."""
    return F.conv_transpose1d(columns, kernel[:, None], groups=kernel.shape[0])


def stretch(
    columns: Float[Tensor, "B E C"], sources: Int[Tensor, " B"], targets: Int[Tensor, " B"], num_columns: int
) -> Float[Tensor, "B E M"]:
    """The first `sources` columns of each element, linearly interpolated at its `targets` columns."""
    target = torch.arange(num_columns, device=columns.device)
    # centres of columns correspond, so that equal numbers of columns are the identity
    position = (target + 0.5) * (sources / targets)[:, None] - 0.5
    position = torch.minimum(position.clamp_min(0), (sources - 1)[:, None])
    left = position.floor().long()
    right = torch.minimum(left + 1, (sources - 1)[:, None])
    share = (position - left)[:, None].to(columns.dtype)

    def gather(index: Int[Tensor, "B M"]) -> Float[Tensor, "B E M"]:
        return columns.gather(2, index[:, None].expand(-1, columns.shape[1], -1))

    return gather(left) * (1 - share) + gather(right) * share


@dataclass(frozen=True, kw_only=True)
class Encoded:
    """The columns of the source, already multiplied by S."""

    source: SourceColumns


@dataclass(frozen=True, kw_only=True)
class State:
    """The state of the recurrence, and the number of tokens that were read."""

    hidden: Float[Tensor, "B H"]
    length: int = 0


class RCTM(nn.Module):
    """A recurrent language model that receives a column of the source at every step."""

    def __init__(self, config: RCTMConfig) -> None:
        super().__init__()
        self.config = config
        find_variant(config.activation, ACTIVATIONS, "activation")
        make_source_model = find_variant(config.source_model, SOURCE_MODELS, "source_model")
        # the control has no parameters for a source
        has_source = make_source_model is not NoSource
        self.source_embedding = nn.Embedding(config.source_vocab_size, config.embedding_size) if has_source else None
        self.target_embedding = nn.Embedding(config.target_vocab_size, config.embedding_size)
        self.sentence_model = make_source_model(config)
        self.word_proj = nn.Linear(config.embedding_size, config.hidden_size)
        self.sentence_proj = nn.Linear(config.embedding_size, config.hidden_size, bias=False) if has_source else None
        self.state_proj = nn.Linear(config.hidden_size, config.hidden_size, bias=False)
        # orthogonal: no state is forgotten or amplified at the start
        nn.init.orthogonal_(self.state_proj.weight, gain=GAINS[config.activation])
        self.activation = ACTIVATIONS[config.activation]
        self.dropout = nn.Dropout(config.dropout)
        self.readout = Readout(hidden_size=config.hidden_size, vocab_size=config.target_vocab_size)

    def encode(self, source: PaddedTokens) -> Encoded:
        """The source as one column (I), as one per expected target position (II), or as zeros (the control)."""
        if self.source_embedding is None or self.sentence_proj is None:
            return Encoded(
                source=self.sentence_model(self.word_proj.weight.new_zeros(len(source.ids), 0, 1), source.lengths)
            )
        words = self.dropout(self.source_embedding(source.ids))
        # convolutions need channels first: (B, L, E) -> (B, E, L)
        columns = self.sentence_model(words.transpose(1, 2), source.lengths)
        return Encoded(source=SourceColumns(columns=self.sentence_proj(columns.columns), lengths=columns.lengths))

    def start(self, encoded: Encoded) -> State:
        """A state of zeros."""
        columns = encoded.source.columns
        return State(hidden=columns.new_zeros(len(columns), self.config.hidden_size))

    def advance(self, inputs: Float[Tensor, "B H"], state: State, encoded: Encoded) -> ModelOutput:
        """The next state from I y + S e; the state is also the input of the output layer."""
        hidden = self.activation(inputs + self.state_proj(state.hidden))
        return ModelOutput(features=hidden, state=State(hidden=hidden, length=state.length + 1))

    def step(self, tokens: Int[Tensor, " B"], state: State, encoded: Encoded) -> Step:
        """Consume one target token and predict the next."""
        inputs = self._inputs(tokens[:, None], state.length, encoded)[:, 0]
        advanced = self.advance(inputs, state, encoded)
        return Step(logits=self.readout(self.dropout(advanced.features)), state=advanced.state)

    def features(self, source: PaddedTokens, target: PaddedTokens) -> ModelOutput:
        """The state at every target position; words and columns are projected in parallel."""
        encoded = self.encode(source)
        # only the recurrence runs step by step; S e and I y are computed before the loop
        inputs = self._inputs(target.ids, 0, encoded)
        states = unroll_features(self.advance, inputs, state=self.start(encoded), encoded=encoded)
        return ModelOutput(features=self.dropout(states))

    def forward(self, source: PaddedTokens, target: PaddedTokens) -> Float[Tensor, "B T vocab"]:
        """Logits for every target position, given the true previous tokens."""
        return self.readout(self.features(source, target).features)

    def _inputs(self, ids: Int[Tensor, "B T"], first: int, encoded: Encoded) -> Float[Tensor, "B T H"]:
        """Projected words plus the columns of their positions, of which the first is `first`."""
        words = self.word_proj(self.dropout(self.target_embedding(ids)))
        columns, lengths = encoded.source.columns, encoded.source.lengths
        positions = torch.arange(first, first + ids.shape[1], device=ids.device)
        # steps beyond the expected length use the last column
        index = torch.minimum(positions, (lengths - 1)[:, None])
        # I and the control have one column, which broadcasts without an index
        return words + (columns if columns.shape[1] == 1 else columns.gather(1, index[..., None].expand_as(words)))
