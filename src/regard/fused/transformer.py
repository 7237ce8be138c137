"""Fused decoding of the Transformer: its steps, one position at a time.

The source is encoded by the model's own code: there products dominate, and fused code would not be faster.
"""

from collections.abc import Iterable
from dataclasses import dataclass
from typing import ClassVar, cast

import torch
from jaxtyping import Float, Int
from torch import Tensor

from regard.attention import GrowingCache
from regard.contracts import (
    ModelOutput,
    OutputLayer,
    PackedTokens,
    PaddedTokens,
    Step,
    mode_reasons,
    unsupported_reasons,
)
from regard.fused.transformer_layers import decoder_layer_step, read_out
from regard.layers import DecoderLayer
from regard.models.translation import Encoded, State, Transformer


@dataclass(frozen=True, kw_only=True)
class FusedEncoded(Encoded):
    """An encoded source of a model that supports fused steps; readable steps take it too.

    `bias` is added to the scores of the source: -inf where a token is padding; None without padding.
    """

    bias: Float[Tensor, "B 1 1 source"] | None


class FusedTransformer:
    """A Transformer that decodes in fewer calls, with the numbers and the weights of `model`."""

    verb: ClassVar[str] = "decodes"

    def __init__(self, model: Transformer) -> None:
        self.model = model

    def unsupported_reasons(self) -> list[str]:
        """Why the model's own steps run at present; [] if fused ones do."""
        config = self.model.config
        own = [
            f"the {name} is {value!r}, and fused steps support {supported!r}"
            for name, value, supported in (
                ("score", config.score, "scaled_dot"),
                ("alignment", config.alignment, "softmax"),
            )
            if value != supported
        ]
        return own + unsupported_reasons(self.model)

    @property
    def readout(self) -> OutputLayer:
        """The model's own."""
        return self.model.readout

    def encode(self, source: PaddedTokens | PackedTokens) -> Encoded:
        """Encode the source once, and decide whether fused steps may follow."""
        encoded = self.model.encode(source)
        return encoded if self.unsupported_reasons() else prepare(encoded)

    def start(self, encoded: Encoded) -> State:
        """The model's own state: fused and readable steps may follow each other."""
        return self.model.start(encoded)

    def step(self, tokens: Int[Tensor, " B"], state: State, encoded: Encoded) -> Step:
        """Consume one target token and predict the next."""
        if not isinstance(encoded, FusedEncoded) or mode_reasons():
            return self.model.step(tokens, state, encoded)
        model = self.model
        words = model.target_embedding(tokens)
        # a tensor without dimensions: all hypotheses have the same length
        position = torch.tensor(state.length, device=tokens.device)
        states = words + model.positions.encode(position, words.dtype)
        caches: list[GrowingCache] = []
        weights = None
        layers = cast(Iterable[DecoderLayer], model.decoder)
        for layer, memory, cache in zip(layers, encoded.memories, state.caches, strict=True):
            # only the weights of the last layer are returned, so only there are they formed
            states, next_cache, weights = decoder_layer_step(
                layer, states, memory, cache, bias=encoded.bias, return_weights=len(caches) == len(model.decoder) - 1
            )
            caches.append(next_cache)
        assert weights is not None
        return Step(
            logits=read_out(model.readout, model.decoder_norm(states)),
            state=State(caches=tuple(caches), length=state.length + 1),
            # (B, heads, 1, source) becomes (B, source)
            weights=weights.mean(dim=1)[:, 0],
        )

    def features(self, source: PaddedTokens | PackedTokens, target: PaddedTokens | PackedTokens) -> ModelOutput:
        """The model's own."""
        return self.model.features(source, target)

    def forward(self, source: PaddedTokens | PackedTokens, target: PaddedTokens | PackedTokens) -> Tensor:
        """The model's own."""
        logits: Tensor = self.model(source, target)
        return logits


def prepare(encoded: Encoded) -> Encoded:
    """The encoded source with its mask as a bias; unchanged where a source has no token to attend to."""
    mask = encoded.memories[0].mask
    assert mask is not None
    # read on the host once per batch, not at every step
    if not len(mask) or not bool(mask.any(dim=1).all()):
        # softmax over nothing is NaN, and the readable code defines it as 0
        return encoded
    bias = None
    if not bool(mask.all()):
        zeros = torch.zeros(mask.shape, dtype=encoded.memories[0].keys.dtype, device=mask.device)
        # (B, 1, 1, source), to broadcast over heads and queries; -inf gives padding weight 0 exactly
        bias = zeros.masked_fill_(~mask, float("-inf"))[:, None, None, :]
    return FusedEncoded(memories=encoded.memories, bias=bias)
