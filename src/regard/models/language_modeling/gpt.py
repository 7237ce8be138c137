"""GPT-2: a decoder-only Transformer language model.

    x = E[token] + P[position];  every layer:  x = x + attend(norm(x), norm(x) up to it);  x = x + FFN(norm(x))
    p(next | x) = softmax(E norm(x))

Radford et al. 2019, section 2.3.
https://cdn.openai.com/better-language-models/language_models_are_unsupervised_multitask_learners.pdf
Unlike GPT (Radford et al. 2018, whose layers are x = norm(x + attend(x)), x = norm(x + FFN(x))) it has pre-norm layers,
one more norm at the top, and output projections of residual branches initialised smaller by sqrt(2 layers). With equal
weights the outputs equal those of transformers' GPT2LMHeadModel.

Texts longer than the context: positions added to the embeddings (learned, sinusoidal) end at the context length, so
when the context is full, the caches are recomputed from the last context // 2 tokens, from position 0. With positions
inside the heads (rotary, alibi) every token attends to itself and the context - 1 tokens before it. In both cases the
result depends on the text alone, not on the pieces in which it was processed.

Departs from the paper: no dropout on attention weights. `positions` are the paper's "learned", or later schemes.
"""

from collections.abc import Iterable
from dataclasses import dataclass, replace
from typing import cast

import torch
from jaxtyping import Float, Int
from torch import Tensor, nn

from regard._utils import find_variant
from regard.attention import GrowingCache, WindowCache
from regard.attention.masks import causal, window
from regard.attention.positions import Alibi, Learned, Rotary, Sinusoidal
from regard.contracts import Cache, ModelOutput, PositionScheme
from regard.layers import CausalLayer, Readout
from regard.models.language_modeling.base import LanguageModelBase

GPT_POSITIONS = {"learned": Learned, "sinusoidal": Sinusoidal, "rotary": Rotary, "alibi": Alibi}
DEVIATION = 0.02
"""Standard deviation of the initial weights."""
CAUSAL = causal()


@dataclass(frozen=True, kw_only=True)
class GPTConfig:
    """Defaults are the smallest GPT-2, which has the sizes of GPT."""

    vocab_size: int = 50_257
    hidden_size: int = 768
    num_layers: int = 12
    num_heads: int = 12
    feed_forward_size: int = 3072
    context: int = 1024
    dropout: float = 0.1
    positions: str = "learned"

    def __post_init__(self) -> None:
        if self.context < 1:
            raise ValueError(f"context is {self.context}, expected 1 token or more.")


@dataclass(frozen=True, kw_only=True)
class State:
    """The layers' caches, and the tokens of the context if half of them may have to be recomputed."""

    caches: tuple[Cache, ...]
    ids: Int[Tensor, "B held"] | None = None


class GPT(LanguageModelBase):
    """Processes texts in parallel, and continues token by token from a cache."""

    readout: Readout

    def __init__(self, config: GPTConfig) -> None:
        super().__init__()
        self.config = config
        kind, size = find_variant(config.positions, GPT_POSITIONS, "positions"), config.hidden_size
        # True if positions are added to the embeddings instead of inside the heads
        self.is_placed = not issubclass(kind, PositionScheme)
        self.embedding = nn.Embedding(config.vocab_size, size)
        self.positions: nn.Module = nn.Identity()
        if kind is Learned:
            self.positions = Learned(hidden_size=size, max_length=config.context)
        elif kind is Sinusoidal:
            self.positions = Sinusoidal(hidden_size=size)
        self.dropout = nn.Dropout(config.dropout)
        self.layers = nn.ModuleList(make_layer(config) for _ in range(config.num_layers))
        self.norm = nn.LayerNorm(size)
        # the readout shares the Parameter itself, so `parameters()` yields it once
        self.readout = Readout(hidden_size=size, vocab_size=config.vocab_size, tied=self.embedding.weight)
        self.reset_parameters()

    def reset_parameters(self) -> None:
        """GPT-2's initialisation: normal weights, zero biases, residual branches scaled by their number."""
        for module in self.modules():
            if isinstance(module, (nn.Linear, nn.Embedding)):
                nn.init.normal_(module.weight, std=DEVIATION)
            if isinstance(module, nn.Linear):
                nn.init.zeros_(module.bias)
        for layer in cast(Iterable[CausalLayer], self.layers):
            # after the loop above, which has set these weights with the full deviation
            for proj in (layer.attention.output_proj, layer.feed_forward.output):
                # each of the 2 x num_layers residual branches adds variance
                nn.init.normal_(proj.weight, std=DEVIATION * (2 * self.config.num_layers) ** -0.5)

    def start(self, batch_size: int) -> State:
        """Empty caches."""
        # tokens are kept only if positions are added, since only then can they have to be recomputed
        ids = torch.zeros(batch_size, 0, dtype=torch.int64, device=self.embedding.weight.device)
        return State(caches=self._empty(), ids=ids if self.is_placed else None)

    def _empty(self) -> tuple[Cache, ...]:
        if self.is_placed:
            return tuple(GrowingCache() for _ in self.layers)
        return tuple(WindowCache(size=self.config.context) for _ in self.layers)

    def features(self, tokens: Int[Tensor, "B T"], state: State) -> ModelOutput:
        """Process many tokens, in pieces that fit into the context."""
        features, first = [], 0
        while first < tokens.shape[1]:
            # at least one token, since a full context is halved first: the loop always ends
            last = first + self._num_free(state)
            piece, state = self._forward_piece(tokens[:, first:last], state)
            features.append(piece)
            first = last
        if len(features) == 1:
            return ModelOutput(features=features[0], state=state)
        # for zero tokens the embedding gives features of the right shape, (B, 0, size)
        return ModelOutput(features=torch.cat(features, dim=1) if features else self.embedding(tokens), state=state)

    def window_length(self, length: int) -> int:
        """The number of last tokens that the next prediction depends on, after a text of this length.

        With rotary positions or ALiBi it is that of each layer; earlier tokens act through the layers below.
        """
        context = self.config.context
        if length <= context or not self.is_placed:
            return min(length, context)
        # a full context is reduced to its last half each time, and then grows again
        half = context // 2
        return half + 1 + (length - context - 1) % (context - half)

    def _num_free(self, state: State) -> int:
        """Number of tokens that can be processed in one pass."""
        context = self.config.context
        held = 0 if state.ids is None else state.ids.shape[1]
        # a full context is first reduced to its last half
        return context - (held if held < context else context // 2)

    def _forward_piece(self, tokens: Int[Tensor, "B T"], state: State) -> tuple[Float[Tensor, "B T size"], State]:
        """One pass; if the context is full, its last half is recomputed in front of the new tokens."""
        context, num_recomputed = self.config.context, 0
        if state.ids is not None:
            held = state.ids
            if held.shape[1] == context:
                # positions are added to the embeddings, so the kept tokens move and old caches are invalid
                # the recomputed tokens become part of `tokens`, so nothing is held before them
                held, num_recomputed = held[:, :0], context // 2
                tokens = torch.cat([state.ids[:, context - num_recomputed :], tokens], dim=1)
                state = replace(state, caches=self._empty(), ids=held)
            state = replace(state, ids=torch.cat([held, tokens], dim=1))
        states = self.embedding(tokens)
        # all layers have caches of equal length; it is a Python number, so no synchronisation is needed
        length = state.caches[0].length
        if self.is_placed:
            positions = torch.arange(length, length + tokens.shape[1], device=tokens.device)
            states = self.positions(states, positions)
        states = self.dropout(states)
        # within the context the window mask is not needed, and plain causal attention has faster kernels
        # distances 0 to context - 1: the query itself and the context - 1 tokens before it
        mask = CAUSAL if length + tokens.shape[1] <= context else CAUSAL & window(context - 1)
        caches = []
        for layer, cache in zip(self.layers, state.caches, strict=True):
            states, grown = layer(states, cache, mask)
            caches.append(grown)
        # the outputs of recomputed tokens were returned with an earlier piece
        return self.norm(states)[:, num_recomputed:], replace(state, caches=tuple(caches))


def make_layer(config: GPTConfig) -> CausalLayer:
    """A layer of the config's sizes, with positions inside the heads if the scheme requires it."""
    inside: PositionScheme | None = None
    if config.positions == "rotary":
        inside = Rotary(head_size=config.hidden_size // config.num_heads)
    elif config.positions == "alibi":
        inside = Alibi(num_heads=config.num_heads)
    return CausalLayer(
        hidden_size=config.hidden_size,
        num_heads=config.num_heads,
        feed_forward_size=config.feed_forward_size,
        dropout=config.dropout,
        positions=inside,
    )
