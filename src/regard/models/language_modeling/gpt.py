"""GPT: a Transformer's decoder alone, reading a text from left to right.

    x = E[token] + P[place];  every layer:  x = x + attend(norm(x), those before it);  x = x + FFN(norm(x))
    p(next | x) = softmax(E norm(x))

Radford et al. 2018. https://cdn.openai.com/research-covers/language-unsupervised/language_understanding_paper.pdf
The form is that of GPT-2 (Radford et al. 2019, section 2.3): norms come first, one more stands at the top, and the
projections that end a residual begin smaller by sqrt(2 layers). The same weights give the numbers of transformers'
GPT2LMHeadModel.

A text longer than the context. With places added to the words (learned, sinusoidal) there is no place for it: when the
context is full, what is kept is made anew from the last context // 2 tokens, read again from place 0. With places
inside the heads (rotary, alibi) every token sees itself and the context - 1 before it, for ever. Either way the answer
depends on the text alone, not on the pieces in which it was read.

Departs from the paper: attention weights are not dropped. `positions` are the paper's "learned", or later ones.
"""

from collections.abc import Iterable
from dataclasses import dataclass, replace
from typing import cast

import torch
from jaxtyping import Float, Int
from torch import Tensor, nn

from regard._utils import named
from regard.attention import GrowingCache, WindowCache
from regard.attention.masks import causal, window
from regard.attention.positions import Alibi, Learned, Rotary, Sinusoidal
from regard.contracts import Cache, ModelOutput, PositionScheme
from regard.layers import CausalLayer, Readout
from regard.models.language_modeling.base import Reader

GPT_POSITIONS = {"learned": Learned, "sinusoidal": Sinusoidal, "rotary": Rotary, "alibi": Alibi}
DEVIATION = 0.02
"""Of the initial weights."""
CAUSAL = causal()


@dataclass(frozen=True, kw_only=True)
class GPTConfig:
    """Defaults are GPT-2's smallest, which has the sizes of GPT."""

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
    """Each layer's cache; the tokens of the context, where half of them may have to be read again."""

    caches: tuple[Cache, ...]
    ids: Int[Tensor, "B held"] | None = None


class GPT(Reader):
    """Reads whole texts at once, and goes on token by token from a cache."""

    readout: Readout

    def __init__(self, config: GPTConfig) -> None:
        super().__init__()
        self.config = config
        kind, size = named(config.positions, GPT_POSITIONS, "positions"), config.hidden_size
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
        self.readout = Readout(hidden_size=size, vocab_size=config.vocab_size, tied=self.embedding.weight)
        self.reset_parameters()

    def reset_parameters(self) -> None:
        """GPT-2's: normal weights, no bias, residual paths that do not grow with their number."""
        for module in self.modules():
            if isinstance(module, (nn.Linear, nn.Embedding)):
                nn.init.normal_(module.weight, std=DEVIATION)
            if isinstance(module, nn.Linear):
                nn.init.zeros_(module.bias)
        for layer in cast(Iterable[CausalLayer], self.layers):
            for proj in (layer.attention.output_proj, layer.feed_forward.output):
                nn.init.normal_(proj.weight, std=DEVIATION * (2 * self.config.num_layers) ** -0.5)

    def start(self, num_rows: int) -> State:
        """Nothing read yet."""
        ids = torch.zeros(num_rows, 0, dtype=torch.int64, device=self.embedding.weight.device)
        return State(caches=self._empty(), ids=ids if self.is_placed else None)

    def _empty(self) -> tuple[Cache, ...]:
        if self.is_placed:
            return tuple(GrowingCache() for _ in self.layers)
        return tuple(WindowCache(size=self.config.context) for _ in self.layers)

    def read(self, tokens: Int[Tensor, "B T"], state: State) -> ModelOutput:
        """Read many tokens: those that the context has room for at once."""
        features, first = [], 0
        while first < tokens.shape[1]:
            last = first + self._room(state)
            piece, state = self._read_piece(tokens[:, first:last], state)
            features.append(piece)
            first = last
        if len(features) == 1:
            return ModelOutput(features=features[0], state=state)
        return ModelOutput(features=torch.cat(features, dim=1) if features else self.embedding(tokens), state=state)

    def _room(self, state: State) -> int:
        """How many tokens may be read at once."""
        context = self.config.context
        held = 0 if state.ids is None else state.ids.shape[1]
        return context - (held if held < context else context // 2)

    def _read_piece(self, tokens: Int[Tensor, "B T"], state: State) -> tuple[Float[Tensor, "B T size"], State]:
        """One pass; if the context is full, the last half of it is read again before."""
        context, again = self.config.context, 0
        if state.ids is not None:
            held = state.ids
            if held.shape[1] == context:
                held, again = held[:, :0], context // 2
                tokens = torch.cat([state.ids[:, context - again :], tokens], dim=1)
                state = replace(state, caches=self._empty(), ids=held)
            state = replace(state, ids=torch.cat([held, tokens], dim=1))
        states = self.embedding(tokens)
        length = state.caches[0].length
        if self.is_placed:
            places = torch.arange(length, length + tokens.shape[1], device=tokens.device)
            states = self.positions(states, places)
        states = self.dropout(states)
        mask = CAUSAL if length + tokens.shape[1] <= context else CAUSAL & window(context - 1)
        caches = []
        for layer, cache in zip(self.layers, state.caches, strict=True):
            states, grown = layer(states, cache, mask)
            caches.append(grown)
        return self.norm(states)[:, again:], replace(state, caches=tuple(caches))


def make_layer(config: GPTConfig) -> CausalLayer:
    """A layer of these sizes, with its places inside the heads if they belong there."""
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
