"""ConvS2S: convolutional encoder and decoder, with attention in every decoder layer.

    block:      y = (GLU(conv(x)) + x) sqrt(1/2)
    attention:  d_i = W h_i + b + g_i,   a_ij = softmax_j(d_i . z_j),   c_i = m sqrt(1/m) sum_j a_ij (z_j + e_j)

Gehring et al. 2017. https://arxiv.org/abs/1705.03122
h is a decoder block before its residual, g the target word's embedding, z the encoder's output, e the source word's
embedding, m the source length. Embeddings are word plus learned position. Training computes all positions in parallel;
decoding keeps the last inputs of every convolution. Gradients into the encoder's output are divided by the number of
attentions, those into its embeddings are not (section 3.4). Step weights are the mean over the decoder layers.

Departs from the paper: as in the authors' code, the context is projected to the hidden size before it is added,
attention precedes the residual, and the gradients into the encoder's output are also halved. `scaling` says which sums
of two terms are multiplied by sqrt(1/2): "paper", the residuals alone; "authors", also the three others of their code,
d_i = (W h_i + b + g_i) sqrt(1/2), the values (z_j + e_j) sqrt(1/2) and (h_i + c_i) sqrt(1/2); "context", only the last
of these, as in regard 0.1. `score` and `alignment` select others. The output layer is not weight-normalised. Positions
past `max_length` share its last vector.
"""

from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from typing import Any, ClassVar, cast

import torch
from jaxtyping import Float, Int
from torch import Tensor, nn

from regard._utils import find_variant
from regard.attention import Attention, make_alignment, make_score
from regard.attention.positions import Learned
from regard.contracts import Memory, ModelOutput, PaddedTokens, PositionInfo, Step
from regard.layers import CausalConvolution, Readout, SameConvolution, normalised_linear

HALF = 0.5**0.5
"""Scale that keeps the variance of a sum of two terms."""


@dataclass(frozen=True, kw_only=True)
class Scaling:
    """Factors of the sums that form a query, a value, and the input of the residual."""

    query: float
    value: float
    context: float


SCALINGS = {
    "paper": Scaling(query=1.0, value=1.0, context=1.0),
    "authors": Scaling(query=HALF, value=HALF, context=HALF),
    "context": Scaling(query=1.0, value=1.0, context=HALF),
}


@dataclass(frozen=True, kw_only=True)
class ConvSeq2SeqConfig:
    """Defaults are the published English-Romanian model (section 4.2); `num_layers` on each side."""

    FORMER_VALUES: ClassVar[Mapping[str, str]] = {"scaling": "context"}
    """Values of settings that are absent in the config of an older checkpoint."""

    source_vocab_size: int = 40_000
    target_vocab_size: int = 40_000
    embedding_size: int = 512
    hidden_size: int = 512
    num_layers: int = 20
    kernel_size: int = 3
    max_length: int = 1024
    scaling: str = "paper"
    score: str = "dot"
    alignment: str = "softmax"
    dropout: float = 0.2


@dataclass(frozen=True, kw_only=True)
class Encoded:
    """The memory of every decoder layer, with keys z and values z + e, and the source lengths."""

    memory: Memory
    lengths: Int[Tensor, " B"]


@dataclass(frozen=True, kw_only=True)
class State:
    """The last inputs of each convolution, and the number of tokens so far."""

    windows: tuple[Float[Tensor, "B before hidden"], ...]
    length: int = 0


@dataclass(frozen=True, kw_only=True)
class Decoded:
    """Features of several positions, the state after them, and the attention weights of each layer."""

    features: Float[Tensor, "B T embedding"]
    state: State
    weights: tuple[Float[Tensor, "B T source"], ...]


class ConvSeq2Seq(nn.Module):
    """Convolutional encoder and decoder of equal depth."""

    def __init__(self, config: ConvSeq2SeqConfig) -> None:
        super().__init__()
        self.config = config
        self.scaling = find_variant(config.scaling, SCALINGS, "scaling")
        # dropout divides by `keep`, which raises the variance by 1 / keep; the initial weights undo that
        embedding_size, hidden_size, keep = config.embedding_size, config.hidden_size, 1.0 - config.dropout
        self.source_embedding = PositionedEmbedding(config.source_vocab_size, config)
        self.target_embedding = PositionedEmbedding(config.target_vocab_size, config)
        self.encoder_input = normalised_linear(embedding_size, hidden_size, variance=keep)
        self.encoder = nn.ModuleList(
            SameConvolution(hidden_size=hidden_size, kernel_size=config.kernel_size, dropout=config.dropout)
            for _ in range(config.num_layers)
        )
        self.encoder_output = normalised_linear(hidden_size, embedding_size)
        self.decoder_input = normalised_linear(embedding_size, hidden_size, variance=keep)
        layers = nn.ModuleList(ConvDecoderLayer(config) for _ in range(config.num_layers))
        self.decoder = cast("Sequence[ConvDecoderLayer]", layers)
        self.decoder_output = normalised_linear(hidden_size, embedding_size)
        self.dropout = nn.Dropout(config.dropout)
        self.readout = Readout(hidden_size=embedding_size, vocab_size=config.target_vocab_size)
        # initialised for the variance that dropout leaves (section 3.5)
        nn.init.normal_(self.readout.weight, std=(keep / embedding_size) ** 0.5)

    def encode(self, source: PaddedTokens) -> Encoded:
        """Encode the source once; keys are the output of the convolutions, values add the embeddings."""
        mask = source.mask
        words = self.dropout(self.source_embedding(source.ids))
        states = self.encoder_input(words)
        for layer in self.encoder:
            # the residual sum of two terms would double the variance in every layer
            states = (layer(states, mask) + states) * HALF
        # all decoder layers attend to these keys, so their gradients add up (section 3.4)
        keys = ScaleGradient.apply(self.encoder_output(states), 0.5 / len(self.decoder))
        # z + e: the values include the words themselves (section 3.3)
        values = (keys + words) * self.scaling.value
        return Encoded(memory=Memory(keys=keys, values=values, mask=mask), lengths=source.lengths)

    def start(self, encoded: Encoded) -> State:
        """Windows of zeros."""
        return State(windows=tuple(layer.convolution.start(encoded.memory.keys) for layer in self.decoder))

    def advance(
        self, tokens: Int[Tensor, "B T"], state: State, encoded: Encoded, *, return_weights: bool = False
    ) -> Decoded:
        """Process tokens in parallel, after those of the state."""
        # positions continue after the tokens that the state contains
        words = self.dropout(self.target_embedding(tokens, state.length))
        states = self.decoder_input(words)
        windows, weights = [], []
        for layer, window in zip(self.decoder, state.windows, strict=True):
            output = layer(states, words, window, encoded, first=state.length, return_weights=return_weights)
            states = output.states
            windows.append(output.window)
            weights.append(output.weights)
        return Decoded(
            features=self.dropout(self.decoder_output(states)),
            state=State(windows=tuple(windows), length=state.length + tokens.shape[1]),
            weights=tuple(weights) if return_weights else (),
        )

    def step(self, tokens: Int[Tensor, " B"], state: State, encoded: Encoded) -> Step:
        """Consume one target token and predict the next."""
        decoded = self.advance(tokens[:, None], state, encoded, return_weights=True)
        return Step(
            logits=self.readout(decoded.features[:, 0]),
            state=decoded.state,
            # (layers, B, 1, source) -> (B, source)
            weights=torch.stack(decoded.weights).mean(dim=0)[:, 0],
        )

    def features(self, source: PaddedTokens, target: PaddedTokens) -> ModelOutput:
        """The input of the output layer at every target position, in parallel."""
        encoded = self.encode(source)
        # no weights are requested, so attention may use a fused kernel
        return ModelOutput(features=self.advance(target.ids, self.start(encoded), encoded).features)

    def forward(self, source: PaddedTokens, target: PaddedTokens) -> Float[Tensor, "B T vocab"]:
        """Logits for every target position, given the true previous tokens."""
        return self.readout(self.features(source, target).features)


class PositionedEmbedding(nn.Module):
    """Word plus position embedding; both start with standard deviation 0.1 (section 3.5)."""

    def __init__(self, vocab_size: int, config: ConvSeq2SeqConfig) -> None:
        super().__init__()
        self.words = nn.Embedding(vocab_size, config.embedding_size)
        self.places = Learned(hidden_size=config.embedding_size, max_length=config.max_length)
        self.last = config.max_length - 1
        for table in (self.words, self.places.table):
            nn.init.normal_(table.weight, std=0.1)

    def forward(self, ids: Int[Tensor, "B L"], first: int = 0) -> Float[Tensor, "B L embedding"]:
        """Embeddings of these tokens; the first is at position `first`."""
        positions = torch.arange(first, first + ids.shape[1], device=ids.device)
        # longer texts reuse the last position instead of failing
        return self.places(self.words(ids), positions.clamp(max=self.last))


@dataclass(frozen=True, kw_only=True)
class ConvDecoderLayerOutput:
    """The states of a decoder layer, the window of its convolution, and its attention weights."""

    states: Float[Tensor, "B T hidden"]
    window: Float[Tensor, "B before hidden"]
    weights: Float[Tensor, "B T source"] | None


class ConvDecoderLayer(nn.Module):
    """A causal convolution followed by attention to the source, around one residual connection."""

    def __init__(self, config: ConvSeq2SeqConfig) -> None:
        super().__init__()
        size = config.hidden_size
        self.scaling = find_variant(config.scaling, SCALINGS, "scaling")
        self.convolution = CausalConvolution(hidden_size=size, kernel_size=config.kernel_size, dropout=config.dropout)
        self.query_proj = normalised_linear(size, config.embedding_size)
        word_size = config.embedding_size
        self.attention = Attention(
            make_score(config.score, query_size=word_size, key_size=word_size, hidden_size=word_size),
            make_alignment(config.alignment, query_size=word_size, hidden_size=word_size),
        )
        self.context_proj = normalised_linear(config.embedding_size, size)

    def forward(
        self,
        states: Float[Tensor, "B T hidden"],
        words: Float[Tensor, "B T embedding"],
        window: Float[Tensor, "B before hidden"],
        encoded: Encoded,
        *,
        first: int,
        return_weights: bool,
    ) -> ConvDecoderLayerOutput:
        """Convolve, attend, add; `first` is the position of the first state."""
        convolved = self.convolution(states, window)
        hidden = convolved.states
        # d_i = W h_i + b + g_i
        positions = torch.arange(first, first + words.shape[1], device=words.device)
        attended = self.attention(
            (self.query_proj(hidden) + words) * self.scaling.query,
            encoded.memory,
            # only alignments that depend on the step read it
            position_info=PositionInfo(positions=positions, lengths=encoded.lengths),
            return_weights=return_weights,
        )
        # m sqrt(1/m): rescale the mean of m vectors to the magnitude of one
        # lengths (B) -> (B, 1, 1), to scale contexts (B, T, embedding)
        context = attended.context * encoded.lengths.to(attended.context.dtype).sqrt()[:, None, None]
        with_context = (self.context_proj(context) + hidden) * self.scaling.context
        return ConvDecoderLayerOutput(
            states=(with_context + states) * HALF, window=convolved.window, weights=attended.weights
        )


class ScaleGradient(torch.autograd.Function):
    """Identity whose gradient is multiplied by a factor."""

    @staticmethod
    def forward(ctx: Any, states: Tensor, factor: float) -> Tensor:
        """The states unchanged."""
        ctx.factor = factor
        # a view is a tensor of its own: the input keeps its gradient function
        return states.view_as(states)

    @staticmethod
    def backward(ctx: Any, *gradients: Tensor) -> tuple[Tensor, None]:
        """The gradient, scaled."""
        return gradients[0] * ctx.factor, None
