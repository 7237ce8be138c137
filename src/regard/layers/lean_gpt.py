"""A causal Transformer made ready for generation: the same numbers as its layers' own, in far fewer calls.

As lean.py and lean_stack.py do for translation. A step of one token reads every weight once and computes little, so
weights laid out for few rows are most of the gain.
"""

from collections.abc import Callable, Iterable
from dataclasses import dataclass, field
from typing import Any

from jaxtyping import Float, Int
from torch import Tensor, nn

from regard.attention import MultiHeadAttention
from regard.kernels.linear import ReadyLinear
from regard.layers.cache import GrowingCache
from regard.layers.causal_layer import CausalLayer
from regard.layers.feed_forward import FeedForward
from regard.layers.lean import INNER, is_usual_part, look, normed, projections
from regard.layers.readout import Readout
from regard.layers.residual import PreNorm

See = Callable[[Tensor, Tensor, Tensor], Tensor]
"""Queries, keys and values of one position [B, H, 1, head] -> what every head saw of all so far, the same shape."""


@dataclass(frozen=True, kw_only=True)
class LeanCausal:
    """A layer's weights, made ready."""

    joined: ReadyLinear
    attended: ReadyLinear
    hidden: ReadyLinear
    output: ReadyLinear
    norms: tuple[nn.LayerNorm, nn.LayerNorm]
    num_heads: int


@dataclass(frozen=True, kw_only=True)
class LeanGPT:
    """All layers, the tables of words and places, the last norm and the readout.

    `boards` are steps captured for a GPU (lean_gpt_graph.py) that nobody uses just now, by their shape.
    """

    words: Float[Tensor, "vocab size"]
    places: Float[Tensor, "context size"]
    layers: tuple[LeanCausal, ...]
    norm: nn.LayerNorm
    readout: ReadyLinear
    boards: dict[tuple[int, int], Any] = field(default_factory=dict)


def make_gpt(
    layers: Iterable[CausalLayer],
    readout: Readout,
    *,
    words: Float[Tensor, "vocab size"],
    places: Float[Tensor, "context size"],
    norm: nn.LayerNorm,
) -> LeanGPT:
    """The stack made ready; its layers are of the usual kind."""
    return LeanGPT(
        words=words.detach(),
        places=places.detach(),
        layers=tuple(map(lean_causal, layers)),
        norm=norm,
        readout=ReadyLinear.of_weight(readout.weight, readout.bias),
    )


def lean_causal(layer: CausalLayer) -> LeanCausal:
    """The layer's weights, joined and laid out."""
    return LeanCausal(
        joined=projections(layer.attention, layer.attention.key_proj, layer.attention.value_proj),
        attended=ReadyLinear.of(layer.attention.output_proj),
        hidden=ReadyLinear.of(layer.feed_forward.hidden),
        output=ReadyLinear.of(layer.feed_forward.output),
        norms=(layer.attention_norm.norm, layer.feed_forward_norm.norm),
        num_heads=layer.attention.num_heads,
    )


def is_usual_causal(layer: nn.Module) -> bool:
    """Whether all parts of the layer are as it was built: what follows knows no others."""
    if type(layer) is not CausalLayer:
        return False
    *others, thinks = layer.attention, layer.attention_norm, layer.feed_forward_norm, layer.feed_forward
    if [type(part) for part in others] != [MultiHeadAttention, PreNorm, PreNorm] or type(thinks) is not FeedForward:
        return False
    bend = thinks.activation
    if type(bend) is not nn.GELU or bend.approximate != "tanh":
        return False
    inner = all(type(part) in INNER for part in thinks.children() if part is not bend)
    return inner and all(map(is_usual_part, others))


def lean_step(
    lean: LeanGPT, tokens: Int[Tensor, " B"], caches: Iterable[GrowingCache], place: int
) -> tuple[Float[Tensor, "B vocab"], tuple[GrowingCache, ...]]:
    """Logits behind one more token, which stands at `place`, and the next caches."""
    states = lean.words.index_select(0, tokens) + lean.places[place]
    grown: list[GrowingCache] = []
    for layer, cache in zip(lean.layers, caches, strict=True):

        def see(queries: Tensor, keys: Tensor, values: Tensor, cache: GrowingCache = cache) -> Tensor:
            grown.append(cache.append(keys, values))
            held_keys, held_values = grown[-1].keys, grown[-1].values
            assert held_keys is not None
            assert held_values is not None
            return look(queries, held_keys, held_values, None)[0]

        states = through(layer, states, see)
    return lean.readout(normed(lean.norm, states)), tuple(grown)


def through(layer: LeanCausal, states: Float[Tensor, "B size"], see: See) -> Float[Tensor, "B size"]:
    """One position of every row through a layer."""
    rows, size = states.shape
    heads = (layer.num_heads, 1, size // layer.num_heads)
    joined = layer.joined(normed(layer.norms[0], states)).view(rows, 3, *heads)
    states = layer.attended.plus(states, see(*joined.unbind(1)).reshape(rows, size))
    return layer.output.plus(states, layer.hidden.gelu(normed(layer.norms[1], states)))
