"""A small decoder-only Transformer for experiments that train one in seconds, and reproducible random numbers.

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
from regard.contracts import check_cancelled
from regard.layers import Embedding, FeedForward, PreNorm


@contextmanager
def seeded(seed: int) -> Iterator[None]:
    """Sample everything inside from this seed, without changing the global generator."""
    # experiments enter it once per model or measurement, so that those without a training can be cancelled as well
    check_cancelled()
    # one thread sums in one order, so that results agree across machines; it is also fastest for tensors this small
    threads = torch.get_num_threads()
    torch.set_num_threads(1)
    try:
        # no devices: experiments run on the CPU, and forking CUDA generators would initialise CUDA
        with torch.random.fork_rng(devices=[]):
            torch.manual_seed(seed)
            yield
    finally:
        torch.set_num_threads(threads)


class SmallBlock(nn.Module):
    """Attention, then feed-forward, each around a residual."""

    def __init__(self, *, size: int, num_heads: int) -> None:
        super().__init__()
        self.attention = MultiHeadAttention(size, num_heads)
        self.feed_forward = FeedForward(hidden_size=size, feed_forward_size=4 * size)
        self.attention_norm, self.feed_forward_norm = PreNorm(hidden_size=size), PreNorm(hidden_size=size)

    def forward(self, states: Float[Tensor, "B L size"], mask: ComposableMask | None) -> Float[Tensor, "B L size"]:
        # attention also returns weights and caches, of which the residual needs none
        states = self.attention_norm(states, lambda normed: self.attention(normed, mask=mask).context)
        return self.feed_forward_norm(states, self.feed_forward)


class SmallTransformer(nn.Module):
    """A decoder-only Transformer whose mask is an argument."""

    def __init__(self, *, vocab_size: int, size: int, num_heads: int, num_layers: int) -> None:
        super().__init__()
        self.embedding = Embedding(vocab_size=vocab_size, hidden_size=size)
        self.positions = Sinusoidal(hidden_size=size)
        self.blocks = nn.ModuleList(SmallBlock(size=size, num_heads=num_heads) for _ in range(num_layers))
        self.norm = nn.LayerNorm(size)

    def forward(self, ids: Int[Tensor, "B L"], mask: ComposableMask | None) -> Float[Tensor, "B L vocab"]:
        """Logits of the token after each position."""
        states = self.positions(self.embedding(ids))
        for block in self.blocks:
            states = block(states, mask)
        return self.embedding.unembed(self.norm(states))
