"""Layers of a Transformer: encoder, decoder, and decoder-only.

Attention and feed-forward sub-layers, each with a residual connection and a norm (post or pre).

Vaswani et al. 2017, section 3.1. https://arxiv.org/abs/1706.03762

The decoder-only layer (causal self-attention and feed-forward, pre-norm):

    x = x + attend(norm(x), norm(x) up to it);  x = x + W2 gelu(W1 norm(x))

Radford et al. 2019, section 2.3.
https://cdn.openai.com/better-language-models/language_models_are_unsupervised_multitask_learners.pdf
GELU in its tanh approximation: Hendrycks and Gimpel 2016. https://arxiv.org/abs/1606.08415
"""

from collections.abc import Callable
from dataclasses import dataclass

from jaxtyping import Float
from torch import Tensor, nn

from regard.attention import MultiHeadAttention
from regard.attention.masks import ComposableMask, causal
from regard.contracts import Alignment, Attended, Cache, Memory, PackedTokens, PositionInfo, PositionScheme, Score
from regard.layers.feed_forward import FeedForward
from regard.layers.residual import PostNorm, PreNorm

CAUSAL = causal()
"""Shared by all layers, since a mask has no state."""


@dataclass(frozen=True, kw_only=True)
class LayerSizes:
    """Sizes and parts of encoder and decoder layers.

    `make_score` builds a score for a given head size, `make_alignment` the alignment of the attention to the source.
    """

    hidden_size: int
    num_heads: int
    feed_forward_size: int
    dropout: float
    norm: type[PostNorm] | type[PreNorm]
    make_score: Callable[[int], Score]
    make_alignment: Callable[[int], Alignment] | None = None

    def attention(self) -> MultiHeadAttention:
        """Multi-head self-attention of these sizes."""
        return MultiHeadAttention(
            self.hidden_size, self.num_heads, score=self.make_score(self.hidden_size // self.num_heads)
        )

    def cross_attention(self) -> MultiHeadAttention:
        """Multi-head attention to the source."""
        head_size = self.hidden_size // self.num_heads
        align = None if self.make_alignment is None else self.make_alignment(head_size)
        return MultiHeadAttention(self.hidden_size, self.num_heads, score=self.make_score(head_size), align=align)

    def residual(self) -> PostNorm | PreNorm:
        """A residual connection with its norm and dropout."""
        return self.norm(hidden_size=self.hidden_size, dropout=self.dropout)

    def feed_forward(self) -> FeedForward:
        """The position-wise feed-forward network."""
        # no dropout inside: in the paper it acts on the outputs of sub-layers, which the residual connection does
        return FeedForward(hidden_size=self.hidden_size, feed_forward_size=self.feed_forward_size)


class EncoderLayer(nn.Module):
    """Self-attention and feed-forward network."""

    def __init__(self, sizes: LayerSizes) -> None:
        super().__init__()
        self.attention, self.attention_norm = sizes.attention(), sizes.residual()
        self.feed_forward, self.feed_forward_norm = sizes.feed_forward(), sizes.residual()

    def forward(
        self, states: Float[Tensor, "*B size"], mask: Tensor | None, packed: PackedTokens | None
    ) -> Float[Tensor, "*B size"]:
        """States of the next layer; `mask` is True where a key is real."""
        # a lambda, because the residual connection passes the states alone
        states = self.attention_norm(states, lambda normed: self.attention(normed, mask=mask, packed=packed).context)
        return self.feed_forward_norm(states, self.feed_forward)


class DecoderLayer(nn.Module):
    """Causal self-attention, cross-attention to the source, and feed-forward network."""

    def __init__(self, sizes: LayerSizes) -> None:
        super().__init__()
        self.self_attention, self.self_attention_norm = sizes.attention(), sizes.residual()
        self.cross_attention, self.cross_attention_norm = sizes.cross_attention(), sizes.residual()
        self.feed_forward, self.feed_forward_norm = sizes.feed_forward(), sizes.residual()

    def forward(
        self,
        states: Float[Tensor, "*B size"],
        memory: Memory,
        packed: PackedTokens | None,
        position_info: PositionInfo | None = None,
    ) -> Float[Tensor, "*B size"]:
        """All positions in parallel; `position_info` is for alignments to the source that depend on the step."""
        # no padding mask: padding follows the tokens, so the causal mask excludes it
        states = self.self_attention_norm(
            states, lambda normed: self.self_attention(normed, mask=CAUSAL, packed=packed).context
        )
        states = self.cross_attention_norm(
            states,
            lambda normed: self.cross_attention(normed, memory, packed=packed, position_info=position_info).context,
        )
        return self.feed_forward_norm(states, self.feed_forward)

    def step(
        self,
        states: Float[Tensor, "B 1 size"],
        memory: Memory,
        cache: Cache,
        *,
        position_info: PositionInfo | None = None,
        return_weights: bool,
    ) -> tuple[Float[Tensor, "B 1 size"], Attended, Attended]:
        """One position: its states, the result of self-attention (with the next cache), and of cross-attention."""
        # a residual calls its sub-layer for the context only; caches and weights leave through this list
        results: list[Attended] = []

        def attend_to_target(normed: Tensor) -> Tensor:
            # no mask: the cache ends at this position
            results.append(self.self_attention(normed, cache=cache))
            return results[-1].context

        def attend_to_source(normed: Tensor) -> Tensor:
            results.append(
                self.cross_attention(normed, memory, position_info=position_info, return_weights=return_weights)
            )
            return results[-1].context

        # sub-layers in the order of the paper: self-attention, cross-attention, feed-forward
        states = self.self_attention_norm(states, attend_to_target)
        states = self.cross_attention_norm(states, attend_to_source)
        states = self.feed_forward_norm(states, self.feed_forward)
        return states, results[0], results[1]


class CausalLayer(nn.Module):
    """A decoder-only layer; dropout acts on the output of each sub-layer, `positions` inside the heads."""

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
        """States of the next layer, and the cache extended by these positions."""
        # as in DecoderLayer.step: the cache leaves through a list
        caches: list[Cache] = []

        def attend(normed: Tensor) -> Tensor:
            attended = self.attention(normed, mask=mask, cache=cache)
            assert attended.cache is not None
            caches.append(attended.cache)
            return attended.context

        states = self.attention_norm(states, attend)
        return self.feed_forward_norm(states, self.feed_forward), caches[0]
