"""Layers of a Transformer: encoder, decoder, and decoder-only.

A Transformer's layers: attention and feed-forward, each around a residual, in either order of the norm.

Vaswani et al. 2017, section 3.1. https://arxiv.org/abs/1706.03762

A decoder's layer without a source: every position looks at those before it, then thinks by itself.

    x = x + attend(norm(x), norm(x) before it);  x = x + W2 gelu(W1 norm(x))

Radford et al. 2019, section 2.3.
https://cdn.openai.com/better-language-models/language_models_are_unsupervised_multitask_learners.pdf
GELU by its tanh formula: Hendrycks and Gimpel 2016. https://arxiv.org/abs/1606.08415
"""

from collections.abc import Callable
from dataclasses import dataclass

from jaxtyping import Float
from torch import Tensor, nn

from regard.attention import MultiHeadAttention
from regard.attention.masks import ComposableMask, causal
from regard.contracts import Attended, Cache, Memory, PackedTokens, PositionScheme, Score
from regard.layers.feed_forward import FeedForward
from regard.layers.residual import PostNorm, PreNorm

CAUSAL = causal()
"""Without state, so that one serves every layer."""


@dataclass(frozen=True, kw_only=True)
class LayerSizes:
    """What both kinds of layer are built from; `make_score` makes a score for heads of the size it is given."""

    hidden_size: int
    num_heads: int
    feed_forward_size: int
    dropout: float
    norm: type[PostNorm] | type[PreNorm]
    make_score: Callable[[int], Score]

    def attention(self) -> MultiHeadAttention:
        """Heads of these sizes."""
        return MultiHeadAttention(
            self.hidden_size, self.num_heads, score=self.make_score(self.hidden_size // self.num_heads)
        )

    def residual(self) -> PostNorm | PreNorm:
        """A residual connection with its norm and dropout."""
        return self.norm(hidden_size=self.hidden_size, dropout=self.dropout)

    def feed_forward(self) -> FeedForward:
        """The position-wise layers."""
        return FeedForward(hidden_size=self.hidden_size, feed_forward_size=self.feed_forward_size)


class EncoderLayer(nn.Module):
    """Every position looks at every other, then thinks by itself."""

    def __init__(self, sizes: LayerSizes) -> None:
        super().__init__()
        self.attention, self.attention_norm = sizes.attention(), sizes.residual()
        self.feed_forward, self.feed_forward_norm = sizes.feed_forward(), sizes.residual()

    def forward(
        self, states: Float[Tensor, "*B size"], mask: Tensor | None, packed: PackedTokens | None
    ) -> Float[Tensor, "*B size"]:
        """States of the next layer; `mask` is True where a key is real."""
        states = self.attention_norm(states, lambda given: self.attention(given, mask=mask, packed=packed).context)
        return self.feed_forward_norm(states, self.feed_forward)


class DecoderLayer(nn.Module):
    """Every position looks at those before it, then at the source, then thinks by itself."""

    def __init__(self, sizes: LayerSizes) -> None:
        super().__init__()
        self.self_attention, self.self_attention_norm = sizes.attention(), sizes.residual()
        self.cross_attention, self.cross_attention_norm = sizes.attention(), sizes.residual()
        self.feed_forward, self.feed_forward_norm = sizes.feed_forward(), sizes.residual()

    def forward(
        self, states: Float[Tensor, "*B size"], memory: Memory, packed: PackedTokens | None
    ) -> Float[Tensor, "*B size"]:
        """All positions at once."""
        states = self.self_attention_norm(
            states, lambda given: self.self_attention(given, mask=CAUSAL, packed=packed).context
        )
        states = self.cross_attention_norm(
            states, lambda given: self.cross_attention(given, memory, packed=packed).context
        )
        return self.feed_forward_norm(states, self.feed_forward)

    def step(
        self, states: Float[Tensor, "B 1 size"], memory: Memory, cache: Cache, *, return_weights: bool
    ) -> tuple[Float[Tensor, "B 1 size"], Attended, Attended]:
        """One position: its states, what it read of the target so far (with the next cache) and of the source."""
        reads: list[Attended] = []

        def look_back(given: Tensor) -> Tensor:
            reads.append(self.self_attention(given, cache=cache))
            return reads[-1].context

        def look_across(given: Tensor) -> Tensor:
            reads.append(self.cross_attention(given, memory, return_weights=return_weights))
            return reads[-1].context

        states = self.self_attention_norm(states, look_back)
        states = self.cross_attention_norm(states, look_across)
        states = self.feed_forward_norm(states, self.feed_forward)
        return states, reads[0], reads[1]


class CausalLayer(nn.Module):
    """Dropout is on what each half adds; `positions` is a scheme that works inside the heads."""

    def __init__(
        self,
        *,
        hidden_size: int,
        num_heads: int,
        feed_forward_size: int,
        dropout: float = 0.0,
        positions: PositionScheme | None = None,
    ) -> None:
        super().__init__()
        self.attention = MultiHeadAttention(hidden_size, num_heads, positions=positions)
        self.attention_norm = PreNorm(hidden_size=hidden_size, dropout=dropout)
        self.feed_forward = FeedForward(
            hidden_size=hidden_size, feed_forward_size=feed_forward_size, activation=nn.GELU(approximate="tanh")
        )
        self.feed_forward_norm = PreNorm(hidden_size=hidden_size, dropout=dropout)

    def forward(
        self, states: Float[Tensor, "B T size"], cache: Cache, mask: ComposableMask
    ) -> tuple[Float[Tensor, "B T size"], Cache]:
        """States of the next layer, and what was read so far with these."""
        caches: list[Cache] = []

        def look_back(given: Tensor) -> Tensor:
            read = self.attention(given, mask=mask, cache=cache)
            assert read.cache is not None
            caches.append(read.cache)
            return read.context

        states = self.attention_norm(states, look_back)
        return self.feed_forward_norm(states, self.feed_forward), caches[0]
