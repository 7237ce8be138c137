"""Triton kernels of packed.py: one program per sequence and head.

    S = scale q k^T,  P = softmax(S),  o = P v;      dP = do v^T,  dS = P (dP - sum P dP),  dq = dS k,  dk = dS^T q

A tile holds a whole sequence, so the softmax is complete after one product and nothing is rescaled.
"""

from regard.kernels.triton_support import constexpr, jit, tl


@jit
def sequence_tile(offsets, sequence, head, stride, TILE: constexpr, SIZE: constexpr):
    """A sequence's tokens in one head: positions, their number, which rows of the tile exist, and memory offsets."""
    first = tl.load(offsets + sequence)
    count = tl.load(offsets + sequence + 1) - first
    tokens, features = tl.arange(0, TILE), tl.arange(0, SIZE)
    at = (first + tokens)[:, None] * stride + head * SIZE + features[None, :]
    # tokens past the end belong to the next sequence and must not be loaded
    return tokens, count, tokens[:, None] < count, at


@jit
def tile_weights(q, k, num_queries, num_keys, scale, rows, columns, CAUSAL: constexpr):
    """Softmax over a sequence's keys, in float32; a query without a key gets zeros."""
    # "ieee" is full float32: TF32, Triton's default, has only 10 bits
    scores = tl.dot(q, tl.trans(k), input_precision="ieee") * scale
    allowed = (rows[:, None] < num_queries) & (columns[None, :] < num_keys)
    if CAUSAL:
        allowed = allowed & (columns[None, :] <= rows[:, None])
    # before the maximum, so that it is over allowed keys only
    scores = tl.where(allowed, scores, float("-inf"))
    peak = tl.max(scores, 1)
    # without a key, -inf - (-inf) would be NaN
    peak = tl.where(peak == float("-inf"), 0.0, peak)
    exponentials = tl.exp(scores - peak[:, None])
    total = tl.sum(exponentials, 1)
    return exponentials / tl.where(total == 0.0, 1.0, total)[:, None]


@jit
def forward_kernel(
    queries,
    keys,
    values,
    context,
    query_offsets,
    key_offsets,
    scale,
    stride,
    SIZE: constexpr,
    QUERY_TILE: constexpr,
    KEY_TILE: constexpr,
    CAUSAL: constexpr,
):
    """The context of one sequence in one head."""
    sequence, head = tl.program_id(0), tl.program_id(1)
    rows, num_queries, is_query, at_query = sequence_tile(query_offsets, sequence, head, stride, QUERY_TILE, SIZE)
    columns, num_keys, is_key, at_key = sequence_tile(key_offsets, sequence, head, stride, KEY_TILE, SIZE)
    q = tl.load(queries + at_query, mask=is_query, other=0.0)
    k = tl.load(keys + at_key, mask=is_key, other=0.0)
    v = tl.load(values + at_key, mask=is_key, other=0.0)
    weights = tile_weights(q, k, num_queries, num_keys, scale, rows, columns, CAUSAL)
    # rounded to the values' type, which tensor cores multiply; the sum is float32
    tile = tl.dot(weights.to(v.dtype), v, input_precision="ieee")
    tl.store(context + at_query, tile.to(q.dtype), mask=is_query)


@jit
def backward_kernel(
    grad,
    queries,
    keys,
    values,
    query_grads,
    key_grads,
    value_grads,
    query_offsets,
    key_offsets,
    scale,
    stride,
    SIZE: constexpr,
    QUERY_TILE: constexpr,
    KEY_TILE: constexpr,
    CAUSAL: constexpr,
):
    """The gradients of one sequence in one head; no other program writes them, so there are no atomics."""
    sequence, head = tl.program_id(0), tl.program_id(1)
    rows, num_queries, is_query, at_query = sequence_tile(query_offsets, sequence, head, stride, QUERY_TILE, SIZE)
    columns, num_keys, is_key, at_key = sequence_tile(key_offsets, sequence, head, stride, KEY_TILE, SIZE)
    q = tl.load(queries + at_query, mask=is_query, other=0.0)
    k = tl.load(keys + at_key, mask=is_key, other=0.0)
    v = tl.load(values + at_key, mask=is_key, other=0.0)
    g = tl.load(grad + at_query, mask=is_query, other=0.0)
    # the weights are computed again: that is faster than loading a stored tile
    weights = tile_weights(q, k, num_queries, num_keys, scale, rows, columns, CAUSAL)
    value_grad = tl.dot(tl.trans(weights.to(g.dtype)), g, input_precision="ieee")
    tl.store(value_grads + at_key, value_grad.to(v.dtype), mask=is_key)
    # dP, and then sum P dP of each query, which the softmax subtracts
    weight_grad = tl.dot(g, tl.trans(v), input_precision="ieee")
    total = tl.sum(weights * weight_grad, 1)
    # the difference in float32: both terms are nearly equal where one weight is near 1
    score_grad = (weights * (weight_grad - total[:, None]) * scale).to(q.dtype)
    tl.store(query_grads + at_query, tl.dot(score_grad, k, input_precision="ieee").to(q.dtype), mask=is_query)
    # a sequence has one tile of queries, so the sum over queries is complete
    key_grad = tl.dot(tl.trans(score_grad), q, input_precision="ieee")
    tl.store(key_grads + at_key, key_grad.to(k.dtype), mask=is_key)
