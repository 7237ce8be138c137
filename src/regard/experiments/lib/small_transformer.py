"""Seeded small decoder-only Transformers for experiments.

Chance that repeats: the same seed gives the same numbers, and nobody else's chance is touched.

A decoder-only Transformer as small as it gets, for experiments that train one in seconds.

Pre-norm blocks of attention and feed-forward, sinusoids, tied embeddings.
Vaswani et al. 2017. https://arxiv.org/abs/1706.03762
"""

from collections.abc import Iterator
from contextlib import contextmanager

import torch
from jaxtyping import Float, Int
from torch import Tensor, nn

from regard.attention import MultiHeadAttention
from regard.attention.masks import ComposableMask
from regard.attention.positions import Sinusoidal
from regard.layers import Embedding, FeedForward, PreNorm


@contextmanager
def seeded(seed: int) -> Iterator[None]:
    """Draw everything inside from this seed, and leave the global generator as it was.

    One thread adds up in one order, so that machines agree; for tensors this small it is also the fastest.
    """
    threads = torch.get_num_threads()
    torch.set_num_threads(1)
    try:
        with torch.random.fork_rng(devices=[]):
            torch.manual_seed(seed)
            yield
    finally:
        torch.set_num_threads(threads)


class Block(nn.Module):
    """Attention, then feed-forward, each around a residual."""

    def __init__(self, *, size: int, num_heads: int) -> None:
        super().__init__()
        self.attention = MultiHeadAttention(size, num_heads)
        self.feed_forward = FeedForward(hidden_size=size, feed_forward_size=4 * size)
        self.attention_norm, self.feed_forward_norm = PreNorm(hidden_size=size), PreNorm(hidden_size=size)

    def forward(self, states: Float[Tensor, "B L size"], mask: ComposableMask | None) -> Float[Tensor, "B L size"]:
        """What each position is told, then what it makes of it."""
        states = self.attention_norm(states, lambda given: self.attention(given, mask=mask).context)
        return self.feed_forward_norm(states, self.feed_forward)


class SmallTransformer(nn.Module):
    """A decoder-only Transformer; who may look at whom is the caller's choice."""

    def __init__(self, *, vocab_size: int, size: int, num_heads: int, num_layers: int) -> None:
        super().__init__()
        self.embedding = Embedding(vocab_size=vocab_size, hidden_size=size)
        self.positions = Sinusoidal(hidden_size=size)
        self.blocks = nn.ModuleList(Block(size=size, num_heads=num_heads) for _ in range(num_layers))
        self.norm = nn.LayerNorm(size)

    def forward(self, ids: Int[Tensor, "B L"], mask: ComposableMask | None) -> Float[Tensor, "B L vocab"]:
        """Logits of what follows each position."""
        states = self.positions(self.embedding(ids))
        for block in self.blocks:
            states = block(states, mask)
        return self.embedding.unembed(self.norm(states))
