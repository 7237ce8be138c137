"""A decoder's layer without a source: every position looks at those before it, then thinks by itself.

    x = x + attend(norm(x), norm(x) before it);  x = x + W2 gelu(W1 norm(x))

Radford et al. 2019, section 2.3.
https://cdn.openai.com/better-language-models/language_models_are_unsupervised_multitask_learners.pdf
GELU by its tanh formula: Hendrycks and Gimpel 2016. https://arxiv.org/abs/1606.08415
"""

from jaxtyping import Float
from torch import Tensor, nn

from regard.attention import MultiHeadAttention
from regard.attention.masks import Rule
from regard.attention.positions import InsideHeads
from regard.contracts import Cache
from regard.layers.feed_forward import FeedForward
from regard.layers.residual import PreNorm


class CausalLayer(nn.Module):
    """Dropout is on what each half adds; `positions` is a scheme that works inside the heads."""

    def __init__(
        self,
        *,
        hidden_size: int,
        num_heads: int,
        feed_forward_size: int,
        dropout: float = 0.0,
        positions: InsideHeads | None = None,
    ) -> None:
        super().__init__()
        self.attention = MultiHeadAttention(hidden_size, num_heads, positions=positions)
        self.attention_norm = PreNorm(size=hidden_size, dropout=dropout)
        self.feed_forward = FeedForward(
            size=hidden_size, hidden_size=feed_forward_size, activation=nn.GELU(approximate="tanh")
        )
        self.feed_forward_norm = PreNorm(size=hidden_size, dropout=dropout)

    def forward(
        self, states: Float[Tensor, "B T size"], cache: Cache, mask: Rule
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
