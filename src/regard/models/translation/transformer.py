"""Transformer: nothing but attention, all positions at once.

    encoder layer:  x = norm(x + attend(x, x));  x = norm(x + FFN(x))
    decoder layer:  y = norm(y + attend(y, y before it));  y = norm(y + attend(y, x));  y = norm(y + FFN(y))
    p(next | y) = softmax(E y)

Vaswani et al. 2017. https://arxiv.org/abs/1706.03762
Training is one pass over the whole target; decoding keeps each layer's keys and values in a cache. Batches may be
packed: tokens lie end to end, and only attention sees the padded rectangle, if anyone does.

Departs from the paper: `norm="pre"` normalises before each sub-layer (Xiong et al. 2020), and `score` puts any other
score function into the heads. `Step.alignment` is the last layer's look at the source, averaged over its heads.
"""

import inspect
from collections.abc import Iterable
from dataclasses import dataclass
from functools import partial
from typing import cast

import torch
from jaxtyping import Float, Int
from torch import Tensor, nn

from regard._utils import named
from regard.attention import GrowingCache, pad_memory
from regard.attention.positions import Sinusoidal
from regard.attention.scores import SCORES
from regard.contracts import Memory, ModelOutput, PackedTokens, PaddedTokens, Score, Step
from regard.layers import NORMS, DecoderLayer, Embedding, EncoderLayer, LayerSizes, PostNorm, Readout


@dataclass(frozen=True, kw_only=True)
class TransformerConfig:
    """Defaults are the published base model (table 3). Embeddings are shared where the vocabularies are one."""

    source_vocab_size: int = 37_000
    target_vocab_size: int = 37_000
    hidden_size: int = 512
    num_layers: int = 6
    num_heads: int = 8
    feed_forward_size: int = 2048
    dropout: float = 0.1
    norm: str = "post"
    score: str = "scaled_dot"
    shared_embeddings: bool = True


@dataclass(frozen=True, kw_only=True)
class Encoded:
    """Keys and values of the source for each decoder layer."""

    memories: tuple[Memory, ...]


@dataclass(frozen=True, kw_only=True)
class State:
    """What each decoder layer read of the target so far, and how many tokens that is."""

    caches: tuple[GrowingCache, ...]
    length: int = 0


class Transformer(nn.Module):
    """Encoder and decoder of equal depth."""

    def __init__(self, config: TransformerConfig) -> None:
        super().__init__()
        self.config = config
        size = config.hidden_size
        sizes = LayerSizes(
            hidden_size=size,
            num_heads=config.num_heads,
            feed_forward_size=config.feed_forward_size,
            dropout=config.dropout,
            norm=named(config.norm, NORMS, "norm"),
            make_score=partial(make_score, config.score),
        )
        self.target_embedding = Embedding(vocab_size=config.target_vocab_size, hidden_size=size)
        self.source_embedding = (
            self.target_embedding
            if config.shared_embeddings and config.source_vocab_size == config.target_vocab_size
            else Embedding(vocab_size=config.source_vocab_size, hidden_size=size)
        )
        self.positions = Sinusoidal(hidden_size=size)
        self.dropout = nn.Dropout(config.dropout)
        self.encoder = nn.ModuleList(EncoderLayer(sizes) for _ in range(config.num_layers))
        self.decoder = nn.ModuleList(DecoderLayer(sizes) for _ in range(config.num_layers))
        # the paper's order ends every layer with a norm; the other order needs one at the top
        ends = nn.Identity if sizes.norm is PostNorm else partial(nn.LayerNorm, size)
        self.encoder_norm, self.decoder_norm = ends(), ends()
        self.readout = Readout(
            hidden_size=size, vocab_size=config.target_vocab_size, tied=self.target_embedding.table.weight
        )

    def encode(self, source: PaddedTokens | PackedTokens) -> Encoded:
        """Encode the source once; every decoder layer has its own keys and values of it."""
        return Encoded(memories=tuple(map(pad_memory, self._prepare_memories(source))))

    def _prepare_memories(self, source: PaddedTokens | PackedTokens) -> tuple[Memory, ...]:
        """Keys and values of the source for each decoder layer."""
        packed, mask = (source, None) if isinstance(source, PackedTokens) else (None, source.mask)
        states = self._embed(self.source_embedding, source)
        # packed rows know their lengths; padded ones are masked as (batch, heads, queries, keys)
        keys = None if mask is None else mask[:, None, None, :]
        for layer in self.encoder:
            states = layer(states, keys, packed)
        states = self.encoder_norm(states)
        layers = cast(Iterable[DecoderLayer], self.decoder)
        return tuple(layer.cross_attention.prepare_memory(states, mask=mask, packed=packed) for layer in layers)

    def start(self, encoded: Encoded) -> State:
        """Nothing read yet."""
        return State(caches=tuple(GrowingCache() for _ in self.decoder))

    def step(self, tokens: Int[Tensor, " B"], state: State, encoded: Encoded) -> Step:
        """Consume one target token and predict the next; the alignment is the last layer's, averaged over its heads."""
        position = torch.tensor([state.length], device=tokens.device)
        states = self.dropout(self.positions(self.target_embedding(tokens[:, None]), position))
        caches, weights = [], None
        layers = cast(Iterable[DecoderLayer], self.decoder)
        for layer, memory, cache in zip(layers, encoded.memories, state.caches, strict=True):
            states, back, across = layer.step(states, memory, cache, return_weights=layer is self.decoder[-1])
            caches.append(back.cache)
            weights = across.weights
        assert weights is not None
        return Step(
            logits=self.readout(self.decoder_norm(states[:, 0])),
            state=State(caches=tuple(caches), length=state.length + 1),
            alignment=weights.mean(dim=1)[:, 0],
        )

    def features(self, source: PaddedTokens | PackedTokens, target: PaddedTokens | PackedTokens) -> ModelOutput:
        """What the readout sees at every target position, all at once; packed where the target is."""
        memories = self._prepare_memories(source)
        packed = target if isinstance(target, PackedTokens) else None
        states = self._embed(self.target_embedding, target)
        for layer, memory in zip(self.decoder, memories, strict=True):
            states = layer(states, memory, packed)
        return ModelOutput(features=self.decoder_norm(states))

    def forward(
        self, source: PaddedTokens | PackedTokens, target: PaddedTokens | PackedTokens
    ) -> Float[Tensor, "B T vocab"] | Float[Tensor, "N vocab"]:
        """Logits for every target position, given the true previous tokens."""
        return self.readout(self.features(source, target).features)

    def _embed(
        self, embedding: Embedding, tokens: PaddedTokens | PackedTokens
    ) -> Float[Tensor, "B L size"] | Float[Tensor, "N size"]:
        """Words with their places."""
        words = embedding(tokens.ids)
        longest = tokens.max_seqlen if isinstance(tokens, PackedTokens) else words.shape[1]
        places = self.positions.encode(torch.arange(longest, device=words.device), words.dtype)
        return self.dropout(words + (places[tokens.positions] if isinstance(tokens, PackedTokens) else places))


def make_score(name: str, head_size: int) -> Score:
    """A score of the table for heads of this size; what it requires is filled in by name."""
    known = {"query_size": head_size, "key_size": head_size, "hidden_size": head_size, "max_length": 1024}
    build = named(name, SCORES, "score").build
    taken = inspect.signature(build).parameters
    score: Score = build(**{argument: size for argument, size in known.items() if argument in taken})
    return score
