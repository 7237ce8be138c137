"""Transformer: self-attention and cross-attention, without recurrence or convolution.

    encoder layer:  x = norm(x + attend(x, x));  x = norm(x + FFN(x))
    decoder layer:  y = norm(y + attend(y, y up to it));  y = norm(y + attend(y, x));  y = norm(y + FFN(y))
    p(next | y) = softmax(E y)

Vaswani et al. 2017. https://arxiv.org/abs/1706.03762
Training is one pass over the whole target; decoding keeps the keys and values of each layer in a cache. Batches may be
packed: tokens are concatenated without padding, and only attention may pad them.

Departs from the paper: `norm="pre"` normalises before each sub-layer (Xiong et al. 2020), `score` selects another
score for all heads, and `alignment` another alignment for those that attend to the source. Step weights are the last
layer's cross-attention, averaged over its heads.
"""

from collections.abc import Iterable
from dataclasses import dataclass
from functools import partial
from typing import cast

import torch
from jaxtyping import Float, Int
from torch import Tensor, nn

from regard._utils import find_variant
from regard.attention import GrowingCache, make_alignment, make_score, pad_memory
from regard.attention.positions import Sinusoidal
from regard.contracts import Alignment, Memory, ModelOutput, PackedTokens, PaddedTokens, PositionInfo, Score, Step
from regard.layers import NORMS, DecoderLayer, Embedding, EncoderLayer, LayerSizes, PostNorm, Readout


@dataclass(frozen=True, kw_only=True)
class TransformerConfig:
    """Defaults are the published base model (table 3). Embeddings are shared if the vocabularies have one size."""

    source_vocab_size: int = 37_000
    target_vocab_size: int = 37_000
    hidden_size: int = 512
    num_layers: int = 6
    num_heads: int = 8
    feed_forward_size: int = 2048
    dropout: float = 0.1
    norm: str = "post"
    score: str = "scaled_dot"
    alignment: str = "softmax"
    shared_embeddings: bool = True


@dataclass(frozen=True, kw_only=True)
class Encoded:
    """Keys and values of the source for each decoder layer."""

    memories: tuple[Memory, ...]


@dataclass(frozen=True, kw_only=True)
class State:
    """The self-attention cache of each decoder layer, and the number of target tokens so far."""

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
            norm=find_variant(config.norm, NORMS, "norm"),
            make_score=partial(score_of_heads, config.score),
            make_alignment=partial(alignment_of_heads, config.alignment),
        )
        self.target_embedding = Embedding(vocab_size=config.target_vocab_size, hidden_size=size)
        # one table for both sides is possible only if the vocabularies have one size
        self.source_embedding = (
            self.target_embedding
            if config.shared_embeddings and config.source_vocab_size == config.target_vocab_size
            else Embedding(vocab_size=config.source_vocab_size, hidden_size=size)
        )
        self.positions = Sinusoidal(hidden_size=size)
        self.dropout = nn.Dropout(config.dropout)
        self.encoder = nn.ModuleList(EncoderLayer(sizes) for _ in range(config.num_layers))
        self.decoder = nn.ModuleList(DecoderLayer(sizes) for _ in range(config.num_layers))
        # post-norm layers end with a norm; pre-norm stacks need one at the top
        top_norm = nn.Identity if sizes.norm is PostNorm else partial(nn.LayerNorm, size)
        self.encoder_norm, self.decoder_norm = top_norm(), top_norm()
        self.readout = Readout(
            # the output layer shares the target embedding (section 3.4)
            hidden_size=size,
            vocab_size=config.target_vocab_size,
            tied=self.target_embedding.table.weight,
        )

    def encode(self, source: PaddedTokens | PackedTokens) -> Encoded:
        """Encode the source once, as keys and values for each decoder layer."""
        # packed keys are padded here, because a decoding step has one query per batch element
        return Encoded(memories=tuple(map(pad_memory, self._prepare_memories(source))))

    def _prepare_memories(self, source: PaddedTokens | PackedTokens) -> tuple[Memory, ...]:
        """Keys and values of the source for each decoder layer."""
        # a packed source needs no mask: its sequence boundaries exclude other sentences
        packed, mask = (source, None) if isinstance(source, PackedTokens) else (None, source.mask)
        states = self._embed(self.source_embedding, source)
        # packed batches carry their lengths; padded ones need a mask of shape (batch, heads, queries, keys)
        keys = None if mask is None else mask[:, None, None, :]
        for layer in self.encoder:
            states = layer(states, keys, packed)
        states = self.encoder_norm(states)
        layers = cast(Iterable[DecoderLayer], self.decoder)
        # every decoder layer has its own key and value projections of the same states
        return tuple(layer.cross_attention.prepare_memory(states, mask=mask, packed=packed) for layer in layers)

    def start(self, encoded: Encoded) -> State:
        """Empty caches."""
        return State(caches=tuple(GrowingCache() for _ in self.decoder))

    def step(self, tokens: Int[Tensor, " B"], state: State, encoded: Encoded) -> Step:
        """Consume one target token and predict the next, with the weights of the last layer, averaged over heads."""
        # one token per batch element, all at the same position; filled on the device, without a copy from the host
        position = torch.full((1,), state.length, device=tokens.device)
        states = self.dropout(self.positions(self.target_embedding(tokens[:, None]), position))
        caches, weights = [], None
        layers = cast(Iterable[DecoderLayer], self.decoder)
        # only the last layer forms its weights; the other layers may use fused attention
        for layer, memory, cache in zip(layers, encoded.memories, state.caches, strict=True):
            states, self_attended, cross_attended = layer.step(
                states,
                memory,
                cache,
                # only alignments that depend on the step read it
                position_info=PositionInfo(positions=position),
                return_weights=layer is self.decoder[-1],
            )
            caches.append(self_attended.cache)
            weights = cross_attended.weights
        assert weights is not None
        return Step(
            logits=self.readout(self.decoder_norm(states[:, 0])),
            state=State(caches=tuple(caches), length=state.length + 1),
            # (B, heads, 1, source) -> (B, source)
            weights=weights.mean(dim=1)[:, 0],
        )

    def features(self, source: PaddedTokens | PackedTokens, target: PaddedTokens | PackedTokens) -> ModelOutput:
        """The input of the output layer at every target position, in parallel; packed for a packed target."""
        # memories stay packed here; `encode` pads them for decoding
        memories = self._prepare_memories(source)
        packed = target if isinstance(target, PackedTokens) else None
        states = self._embed(self.target_embedding, target)
        length = target.max_seqlen if isinstance(target, PackedTokens) else target.ids.shape[1]
        position_info = PositionInfo(positions=torch.arange(length, device=target.ids.device))
        for layer, memory in zip(self.decoder, memories, strict=True):
            states = layer(states, memory, packed, position_info)
        return ModelOutput(features=self.decoder_norm(states))

    def forward(
        self, source: PaddedTokens | PackedTokens, target: PaddedTokens | PackedTokens
    ) -> Float[Tensor, "B T vocab"] | Float[Tensor, "N vocab"]:
        """Logits for every target position, given the true previous tokens."""
        return self.readout(self.features(source, target).features)

    def _embed(
        self, embedding: Embedding, tokens: PaddedTokens | PackedTokens
    ) -> Float[Tensor, "B L size"] | Float[Tensor, "N size"]:
        """Word embeddings plus positions."""
        words = embedding(tokens.ids)
        length = tokens.max_seqlen if isinstance(tokens, PackedTokens) else words.shape[1]
        positions = self.positions.encode(torch.arange(length, device=words.device), words.dtype)
        # packed tokens (N) select their rows of (max_seqlen, size); padded ones broadcast over the batch
        return self.dropout(words + (positions[tokens.positions] if isinstance(tokens, PackedTokens) else positions))


def score_of_heads(name: str, head_size: int) -> Score:
    """A score of the table for heads of this size."""
    return make_score(name, query_size=head_size, key_size=head_size, hidden_size=head_size)


def alignment_of_heads(name: str, head_size: int) -> Alignment:
    """An alignment of the table for heads of this size."""
    return make_alignment(name, query_size=head_size, hidden_size=head_size)
