"""One decoding step without ceremony: the same numbers as a decoder layer's own step, in far fewer calls.

A step of one token is a dozen small products; checks, masks written anew and three projections where one would do cost
more than they. What does not change from step to step is made ready once a source: weights laid out for few rows,
query, key and value projections joined into one, the source's mask as a bias, the first positions' vectors.
"""

from collections.abc import Callable
from dataclasses import dataclass
from typing import Any, TypeVar
from weakref import WeakKeyDictionary

import torch
import torch.nn.functional as F
from jaxtyping import Float
from torch import Tensor, nn

from regard.attention import MultiHeadAttention
from regard.attention.alignments import Softmax
from regard.attention.scores import ScaledDot
from regard.attention.trace import listeners
from regard.contracts import Memory
from regard.kernels.linear import ReadyLinear
from regard.layers.cache import GrowingCache
from regard.layers.readout import Readout
from regard.layers.residual import PostNorm, PreNorm
from regard.layers.transformer import DecoderLayer


@dataclass(frozen=True, kw_only=True)
class LeanLayer:
    """A decoder layer's weights, made ready."""

    joined: ReadyLinear
    self_output: ReadyLinear
    query: ReadyLinear
    cross_output: ReadyLinear
    hidden: ReadyLinear
    output: ReadyLinear
    norms: tuple[nn.LayerNorm, nn.LayerNorm, nn.LayerNorm]
    pre: bool
    num_heads: int


@dataclass(frozen=True, kw_only=True)
class Stepped:
    """One position after a layer: its states, the next cache, and how each head weighed the source."""

    states: Float[Tensor, "B size"]
    cache: GrowingCache
    weights: Float[Tensor, "B H 1 source"]


READY: WeakKeyDictionary[nn.Module, tuple[tuple[tuple[int, int], ...], Any]] = WeakKeyDictionary()
"""What was made ready before, and of which weights; a module that is gone is forgotten."""

Part = TypeVar("Part", bound=nn.Module)
Made = TypeVar("Made")


def made_once(module: Part, make: Callable[[Part], Made]) -> Made:
    """What `make` makes of a module, made anew only when its weights have changed."""
    if any(parameter.is_inference() for parameter in module.parameters()):
        return make(module)
    # a tensor's version counts the changes made to it, unless it was born in inference mode
    stamp = tuple((parameter._version, parameter.data_ptr()) for parameter in module.parameters())
    known = READY.get(module)
    if known is not None and known[0] == stamp:
        made: Made = known[1]
        return made
    made = make(module)
    READY[module] = (stamp, made)
    return made


def make_lean(layer: DecoderLayer) -> LeanLayer | None:
    """The layer made ready, if it is of the usual kind and nobody learns from it or listens to it."""
    if layer.training or torch.is_grad_enabled() or torch.compiler.is_compiling() or listeners():
        return None
    return made_once(layer, ready)


def make_ready(readout: Readout) -> ReadyLinear:
    """The readout made ready."""
    return made_once(readout, lambda given: ReadyLinear.of_weight(given.weight, given.bias))


def ready(layer: DecoderLayer) -> LeanLayer | None:
    """The layer's weights, joined and laid out; None if it is of an unusual kind."""
    own, across = layer.self_attention, layer.cross_attention
    residuals = (layer.self_attention_norm, layer.cross_attention_norm, layer.feed_forward_norm)
    if not is_usual(own) or not is_usual(across) or any(type(one) not in (PostNorm, PreNorm) for one in residuals):
        return None
    return LeanLayer(
        joined=ReadyLinear.of(own.query_proj, own.key_proj, own.value_proj),
        self_output=ReadyLinear.of(own.output_proj),
        query=ReadyLinear.of(across.query_proj),
        cross_output=ReadyLinear.of(across.output_proj),
        hidden=ReadyLinear.of(layer.feed_forward.hidden),
        output=ReadyLinear.of(layer.feed_forward.output),
        norms=(residuals[0].norm, residuals[1].norm, residuals[2].norm),
        pre=isinstance(residuals[0], PreNorm),
        num_heads=own.num_heads,
    )


def is_usual(attention: MultiHeadAttention) -> bool:
    """Scaled dot and softmax, a key head for every query head, no positions inside."""
    return (
        type(attention.score) is ScaledDot
        and type(attention.align) is Softmax
        and attention.positions is None
        and attention.group_size == 1
    )


def lean_step(
    layer: LeanLayer,
    states: Float[Tensor, "B size"],
    memory: Memory,
    cache: GrowingCache,
    *,
    bias: Float[Tensor, "B 1 1 source"] | None,
) -> Stepped:
    """One position through a layer; `bias` is 0 where the source is real, -inf where it is not."""
    rows, size = states.shape
    head_size = size // layer.num_heads

    joined = layer.joined(before(layer, 0, states)).view(rows, 3, layer.num_heads, 1, head_size)
    queries, keys, values = joined.unbind(1)
    cache = cache.append(keys, values)
    assert cache.keys is not None
    assert cache.values is not None
    seen, _ = look(queries, cache.keys, cache.values, None)
    states = after(layer, 0, states, layer.self_output(seen.reshape(rows, size)))

    queries = layer.query(before(layer, 1, states)).view(rows, layer.num_heads, 1, head_size)
    seen, weights = look(queries, memory.keys, memory.values, bias)
    states = after(layer, 1, states, layer.cross_output(seen.reshape(rows, size)))

    thought = layer.output(layer.hidden(before(layer, 2, states)).relu_())
    return Stepped(states=after(layer, 2, states, thought), cache=cache, weights=weights)


def look(
    queries: Float[Tensor, "B H 1 head"],
    keys: Float[Tensor, "B H K head"],
    values: Float[Tensor, "B H K head"],
    bias: Float[Tensor, "B 1 1 K"] | None,
) -> tuple[Float[Tensor, "B H 1 head"], Float[Tensor, "B H 1 K"]]:
    """Scaled dot and softmax for one query a head: there is nothing to fuse, and plain products are the fastest."""
    scores = (queries * queries.shape[-1] ** -0.5) @ keys.mT
    weights = torch.softmax(scores if bias is None else scores.add_(bias), dim=-1)
    return weights @ values, weights


def before(layer: LeanLayer, number: int, states: Float[Tensor, "B size"]) -> Float[Tensor, "B size"]:
    """What a sub-layer reads."""
    return normed(layer.norms[number], states) if layer.pre else states


def after(
    layer: LeanLayer, number: int, states: Float[Tensor, "B size"], said: Float[Tensor, "B size"]
) -> Float[Tensor, "B size"]:
    """States with what a sub-layer said; its result is used up."""
    added = said.add_(states)
    return added if layer.pre else normed(layer.norms[number], added)


def normed(norm: nn.LayerNorm, states: Float[Tensor, "B size"]) -> Float[Tensor, "B size"]:
    """Layer norm as a function: a module's call costs as much as the norm of a few rows."""
    return F.layer_norm(states, norm.normalized_shape, norm.weight, norm.bias, norm.eps)
