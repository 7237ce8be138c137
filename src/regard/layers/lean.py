"""Transformer layers without ceremony, for decoding: the same numbers as the layers' own, in far fewer calls.

A step of one token is a dozen small products; checks, masks written anew and three projections where one would do cost
more than they. What does not change from step to step is made ready once: weights laid out for few rows, query, key and
value projections joined into one, the scale of the scores inside the queries' weights.
"""

from dataclasses import dataclass

import torch
import torch.nn.functional as F
from jaxtyping import Float, Int
from torch import Tensor, nn

from regard.attention import MultiHeadAttention
from regard.attention.alignments import Softmax
from regard.attention.scores import ScaledDot
from regard.contracts import Memory
from regard.kernels.linear import ReadyLinear
from regard.kernels.rows import into_cells
from regard.layers.cache import GrowingCache
from regard.layers.feed_forward import FeedForward
from regard.layers.residual import PostNorm, PreNorm
from regard.layers.transformer import DecoderLayer, EncoderLayer

INNER = (nn.Linear, nn.LayerNorm, nn.Dropout, ScaledDot, Softmax)
LONGEST_FORMED = 128
"""Scores of sources up to this length are formed, which is faster than fusing them while they are few."""


@dataclass(frozen=True, kw_only=True)
class LeanEncoder:
    """An encoder layer's weights, made ready."""

    joined: ReadyLinear
    self_output: ReadyLinear
    hidden: ReadyLinear
    output: ReadyLinear
    norms: tuple[nn.LayerNorm, ...]
    pre: bool
    num_heads: int


@dataclass(frozen=True, kw_only=True)
class LeanDecoder(LeanEncoder):
    """A decoder layer's, which also looks across."""

    query: ReadyLinear
    cross_output: ReadyLinear


@dataclass(frozen=True, kw_only=True)
class Rectangle:
    """Rows of sources side by side: how many, how long, where their tokens stand, and what is added to their scores.

    Without padding there are no `cells` and no `bias`, which is -inf where a key is padding.
    """

    num_rows: int
    longest: int
    cells: Int[Tensor, " N"] | None
    bias: Float[Tensor, "B 1 1 source"] | None

    def spread(self, states: Float[Tensor, "N size"]) -> Float[Tensor, "B source size"]:
        """Tokens at their cells, zeros elsewhere."""
        if self.cells is not None:
            states = into_cells(states, self.cells, None, self.num_rows * self.longest)
        return states.view(self.num_rows, self.longest, -1)

    def gather(self, states: Float[Tensor, "B source H head"]) -> Float[Tensor, "N size"]:
        """Tokens out of their cells."""
        states = states.reshape(self.num_rows * self.longest, -1)
        return states if self.cells is None else states.index_select(0, self.cells)


@dataclass(frozen=True, kw_only=True)
class Stepped:
    """One position after a layer: its states, the next cache, and how each head weighed the source."""

    states: Float[Tensor, "B size"]
    cache: GrowingCache
    weights: Float[Tensor, "B H 1 source"]


def lean_encoder(layer: EncoderLayer) -> LeanEncoder:
    """The layer's weights, joined and laid out."""
    residuals = (layer.attention_norm, layer.feed_forward_norm)
    return LeanEncoder(
        joined=projections(layer.attention, layer.attention.key_proj, layer.attention.value_proj),
        self_output=ReadyLinear.of(layer.attention.output_proj),
        hidden=ReadyLinear.of(layer.feed_forward.hidden),
        output=ReadyLinear.of(layer.feed_forward.output),
        norms=tuple(residual.norm for residual in residuals),
        pre=isinstance(residuals[0], PreNorm),
        num_heads=layer.attention.num_heads,
    )


def lean_decoder(layer: DecoderLayer) -> LeanDecoder:
    """The layer's weights, joined and laid out."""
    own, across = layer.self_attention, layer.cross_attention
    residuals = (layer.self_attention_norm, layer.cross_attention_norm, layer.feed_forward_norm)
    return LeanDecoder(
        joined=projections(own, own.key_proj, own.value_proj),
        self_output=ReadyLinear.of(own.output_proj),
        query=projections(across),
        cross_output=ReadyLinear.of(across.output_proj),
        hidden=ReadyLinear.of(layer.feed_forward.hidden),
        output=ReadyLinear.of(layer.feed_forward.output),
        norms=tuple(residual.norm for residual in residuals),
        pre=isinstance(residuals[0], PreNorm),
        num_heads=own.num_heads,
    )


def projections(attention: MultiHeadAttention, *others: nn.Linear) -> ReadyLinear:
    """Queries times the scale of their scores, and what else reads the same states, as one product."""
    scale = attention.head_size**-0.5
    query = attention.query_proj
    return ReadyLinear.of_weight(
        torch.cat([query.weight * scale, *(other.weight for other in others)]),
        torch.cat([query.bias * scale, *(other.bias for other in others)]),
    )


def is_usual(layer: nn.Module) -> bool:
    """Whether all parts of the layer are the paper's own: what follows knows no others."""
    if type(layer) not in (EncoderLayer, DecoderLayer):
        return False
    return all(is_usual_part(part) for part in layer.children())


def is_usual_part(part: nn.Module) -> bool:
    """The paper's feed-forward, a residual around a layer norm, or heads of scaled dot and softmax without extras."""
    if type(part) not in (MultiHeadAttention, PostNorm, PreNorm, FeedForward):
        return False
    if isinstance(part, MultiHeadAttention) and (part.positions is not None or part.group_size != 1):
        return False
    # a layer that computes otherwise, or holds its weights otherwise, is of another type
    return all(type(inner) in INNER for inner in part.children())


def lean_encode(layer: LeanEncoder, states: Float[Tensor, "N size"], rows: Rectangle) -> Float[Tensor, "N size"]:
    """All tokens of all rows through a layer."""
    size = states.shape[1]
    joined = rows.spread(layer.joined(before(layer, 0, states)))
    heads = joined.view(rows.num_rows, rows.longest, 3, layer.num_heads, size // layer.num_heads)
    queries, keys, values = heads.permute(2, 0, 3, 1, 4).contiguous().unbind()
    if rows.longest <= LONGEST_FORMED:
        seen, _ = look(queries, keys, values, rows.bias)
    else:
        seen = F.scaled_dot_product_attention(queries, keys, values, attn_mask=rows.bias, scale=1.0)
    seen = rows.gather(seen.transpose(1, 2))
    states = after(layer, 0, layer.self_output.plus(states, seen))
    thought = layer.hidden.relu(before(layer, 1, states))
    return after(layer, 1, layer.output.plus(states, thought))


def lean_memories(
    across: ReadyLinear, states: Float[Tensor, "N size"], rows: Rectangle, *, num_layers: int, num_heads: int
) -> list[tuple[Float[Tensor, "B H source head"], Float[Tensor, "B H source head"]]]:
    """Keys and values of the source for every decoder layer, from one product; heads lie apart."""
    head_size = states.shape[1] // num_heads
    spread = rows.spread(across(states)).view(rows.num_rows, rows.longest, num_layers, 2, num_heads, head_size)
    layers = spread.permute(2, 3, 0, 4, 1, 5).contiguous()
    return [(keys, values) for keys, values in layers]


def lean_step(
    layer: LeanDecoder,
    states: Float[Tensor, "B size"],
    memory: Memory,
    cache: GrowingCache,
    *,
    bias: Float[Tensor, "B 1 1 source"] | None,
) -> Stepped:
    """One position through a layer; `bias` is 0 where the source is real, -inf where it is not."""
    rows, size = states.shape
    heads = (layer.num_heads, 1, size // layer.num_heads)
    queries, keys, values = layer.joined(before(layer, 0, states)).view(rows, 3, *heads).unbind(1)
    cache = cache.append(keys, values)
    assert cache.keys is not None
    assert cache.values is not None
    seen, _ = look(queries, cache.keys, cache.values, None)
    states = after(layer, 0, layer.self_output.plus(states, seen.view(rows, size)))

    queries = layer.query(before(layer, 1, states)).view(rows, *heads)
    seen, weights = look(queries, memory.keys, memory.values, bias)
    states = after(layer, 1, layer.cross_output.plus(states, seen.view(rows, size)))

    thought = layer.hidden.relu(before(layer, 2, states))
    return Stepped(states=after(layer, 2, layer.output.plus(states, thought)), cache=cache, weights=weights)


def look(
    queries: Float[Tensor, "B H Q head"],
    keys: Float[Tensor, "B H K head"],
    values: Float[Tensor, "B H K head"],
    bias: Float[Tensor, "B 1 1 K"] | None,
) -> tuple[Float[Tensor, "B H Q head"], Float[Tensor, "B H Q K"]]:
    """Softmax of dot products, the scale being in the queries: plain products are the fastest while these are few."""
    shape, (queries, keys) = queries.shape, (queries.flatten(0, 1), keys.flatten(0, 1))
    # of one query, the keys times it: the same numbers, read row by row
    scores = torch.bmm(keys, queries.mT) if shape[2] == 1 else torch.bmm(queries, keys.mT)
    scores = scores.view(*shape[:3], -1)
    weights = torch.softmax(scores if bias is None else scores.add_(bias), dim=-1)
    return torch.bmm(weights.flatten(0, 1), values.flatten(0, 1)).view(shape), weights


def before(layer: LeanEncoder, number: int, states: Float[Tensor, "N size"]) -> Float[Tensor, "N size"]:
    """What a sub-layer reads."""
    return normed(layer.norms[number], states) if layer.pre else states


def after(layer: LeanEncoder, number: int, states: Float[Tensor, "N size"]) -> Float[Tensor, "N size"]:
    """What comes out behind a sub-layer, once what it said has been added."""
    return states if layer.pre else normed(layer.norms[number], states)


def normed(norm: nn.LayerNorm, states: Float[Tensor, "N size"]) -> Float[Tensor, "N size"]:
    """Layer norm as a function: a module's call costs as much as the norm of a few rows."""
    return F.layer_norm(states, norm.normalized_shape, norm.weight, norm.bias, norm.eps)
