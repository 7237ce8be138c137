"""One position through a Transformer's layers: the layers' own numbers in far fewer calls.

A step of one token is a dozen small products, so the layers' checks, masks, module calls and formed weights cost more
than the arithmetic. Weights are read from the modules at every call; nothing is kept between calls.

Query, key and value projections stay three products: joined they would need a copy of the weights. Each product is
computed by the faster of torch's CPU libraries (kernels/product.py).

Shapes: B batch, H heads, S source tokens, K keys.
"""

import torch
import torch.nn.functional as F
from jaxtyping import Float
from torch import Tensor, nn

from regard.attention import GrowingCache, MultiHeadAttention
from regard.contracts import Memory, has_own_call
from regard.kernels import product
from regard.layers import CausalLayer, DecoderLayer, PostNorm, PreNorm, Readout


def decoder_layer_step(
    layer: DecoderLayer,
    states: Float[Tensor, "B size"],
    memory: Memory,
    cache: GrowingCache,
    *,
    bias: Float[Tensor, "B 1 1 S"] | None,
    return_weights: bool,
) -> tuple[Float[Tensor, "B size"], GrowingCache, Float[Tensor, "B H 1 S"] | None]:
    """States after a layer, its next cache, and how each head weighs the source.

    `bias` is added to the scores of the source: -inf where a token is padding.
    """
    attention, norm = layer.self_attention, layer.self_attention_norm
    queries, keys, values = project_all(attention, normalize_before(norm, states))
    cache = cache.append(keys, values)
    assert cache.keys is not None
    assert cache.values is not None
    context = attend(queries, cache.keys, cache.values)
    states = normalize_after(norm, states + linear(attention.output_proj, context))

    attention, norm = layer.cross_attention, layer.cross_attention_norm
    queries, weights = project(attention.query_proj, attention, normalize_before(norm, states)), None
    if return_weights:
        context, weights = attend_with_weights(queries, memory.keys, memory.values, bias)
    else:
        context = attend(queries, memory.keys, memory.values, bias)
    states = normalize_after(norm, states + linear(attention.output_proj, context))

    norm, feed_forward = layer.feed_forward_norm, layer.feed_forward
    # in place: nothing else refers to the product, and no gradient is recorded
    hidden = linear(feed_forward.hidden, normalize_before(norm, states)).relu_()
    return normalize_after(norm, states + linear(feed_forward.output, hidden)), cache, weights


def causal_layer_outputs(
    layer: CausalLayer, states: Float[Tensor, "B size"], context: Float[Tensor, "B size"]
) -> Float[Tensor, "B size"]:
    """States after the layer whose attention gave this context."""
    states = states + linear(layer.attention.output_proj, context)
    hidden = linear(layer.feed_forward.hidden, normalize(layer.feed_forward_norm.norm, states))
    return states + linear(layer.feed_forward.output, F.gelu(hidden, approximate="tanh"))


def project_all(
    attention: MultiHeadAttention, inputs: Float[Tensor, "B size"]
) -> tuple[Float[Tensor, "B H 1 head"], Float[Tensor, "B H 1 head"], Float[Tensor, "B H 1 head"]]:
    """Queries, keys and values of one position."""
    return (
        project(attention.query_proj, attention, inputs),
        project(attention.key_proj, attention, inputs),
        project(attention.value_proj, attention, inputs),
    )


def project(
    proj: nn.Linear, attention: MultiHeadAttention, inputs: Float[Tensor, "B size"]
) -> Float[Tensor, "B H 1 head"]:
    """One position's projection, as heads."""
    return linear(proj, inputs).view(inputs.shape[0], attention.num_heads, 1, attention.head_size)


def attend(
    queries: Float[Tensor, "B H 1 head"],
    keys: Float[Tensor, "B H K head"],
    values: Float[Tensor, "B H K head"],
    bias: Float[Tensor, "#B 1 1 K"] | None = None,
) -> Float[Tensor, "B size"]:
    """Scaled dot-product attention of one query."""
    context = F.scaled_dot_product_attention(queries, keys, values, attn_mask=bias)
    # torch returns zeros for scores that are all NaN, which would hide broken weights; 0 * NaN is NaN
    return torch.addcmul(context, queries, keys[:, :, :1], value=0).flatten(1)


def attend_with_weights(
    queries: Float[Tensor, "B H 1 head"],
    keys: Float[Tensor, "B H K head"],
    values: Float[Tensor, "B H K head"],
    bias: Float[Tensor, "#B 1 1 K"] | None,
) -> tuple[Float[Tensor, "B size"], Float[Tensor, "B H 1 K"]]:
    """The same with its weights."""
    # the query is scaled, not the scores: it has fewer numbers
    scores = (queries * queries.shape[-1] ** -0.5) @ keys.mT
    weights = torch.softmax(scores if bias is None else scores + bias, dim=-1)
    return (weights @ values).flatten(1), weights


def normalize_before(residual: PostNorm | PreNorm, states: Float[Tensor, "B size"]) -> Float[Tensor, "B size"]:
    """The input of a sub-layer."""
    return normalize(residual.norm, states) if isinstance(residual, PreNorm) else states


def normalize_after(residual: PostNorm | PreNorm, states: Float[Tensor, "B size"]) -> Float[Tensor, "B size"]:
    """The output of a residual connection."""
    return states if isinstance(residual, PreNorm) else normalize(residual.norm, states)


def normalize(norm: nn.LayerNorm, states: Float[Tensor, "B size"]) -> Float[Tensor, "B size"]:
    """Layer norm without the module's call, which costs as much as the norm of a few rows."""
    return F.layer_norm(states, norm.normalized_shape, norm.weight, norm.bias, norm.eps)


def linear(module: nn.Linear, inputs: Float[Tensor, "B input"]) -> Float[Tensor, "B output"]:
    """The layer's product without the module's call."""
    return product(inputs, module.weight, module.bias)


def read_out(readout: Readout, features: Float[Tensor, "B size"]) -> Float[Tensor, "B vocab"]:
    """Logits, by the same product unless the readout has a call of its own."""
    if has_own_call(readout, Readout):
        logits: Tensor = readout(features)
        return logits
    return product(features, readout.weight, readout.bias)
