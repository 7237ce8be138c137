"""The programs behind packed.py, one for each row and head."""

from regard.kernels.triton_support import constexpr, jit, tl


@jit
def places(offsets, row, head, stride, TILE: constexpr, SIZE: constexpr):
    """One row's tokens in one head: their numbers, how many there are, which of the tile they fill, where they lie."""
    first = tl.load(offsets + row)
    count = tl.load(offsets + row + 1) - first
    tokens, features = tl.arange(0, TILE), tl.arange(0, SIZE)
    at = (first + tokens)[:, None] * stride + head * SIZE + features[None, :]
    return tokens, count, tokens[:, None] < count, at


@jit
def weights_for_queries(q, k, num_queries, num_keys, scale, rows, columns, CAUSAL: constexpr):
    """Softmax over a row's keys, in float32; empty rows are zeros."""
    scores = tl.dot(q, tl.trans(k), input_precision="ieee") * scale
    allowed = (rows[:, None] < num_queries) & (columns[None, :] < num_keys)
    if CAUSAL:
        allowed = allowed & (columns[None, :] <= rows[:, None])
    scores = tl.where(allowed, scores, float("-inf"))
    largest = tl.max(scores, 1)
    largest = tl.where(largest == float("-inf"), 0.0, largest)
    shares = tl.exp(scores - largest[:, None])
    total = tl.sum(shares, 1)
    return shares / tl.where(total == 0.0, 1.0, total)[:, None]


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
    """One row's context for one head."""
    row, head = tl.program_id(0), tl.program_id(1)
    rows, num_queries, is_query, at_query = places(query_offsets, row, head, stride, QUERY_TILE, SIZE)
    columns, num_keys, is_key, at_key = places(key_offsets, row, head, stride, KEY_TILE, SIZE)
    q = tl.load(queries + at_query, mask=is_query, other=0.0)
    k = tl.load(keys + at_key, mask=is_key, other=0.0)
    v = tl.load(values + at_key, mask=is_key, other=0.0)
    weights = weights_for_queries(q, k, num_queries, num_keys, scale, rows, columns, CAUSAL)
    found = tl.dot(weights.to(v.dtype), v, input_precision="ieee")
    tl.store(context + at_query, found.to(q.dtype), mask=is_query)


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
    """One row's gradients for one head."""
    row, head = tl.program_id(0), tl.program_id(1)
    rows, num_queries, is_query, at_query = places(query_offsets, row, head, stride, QUERY_TILE, SIZE)
    columns, num_keys, is_key, at_key = places(key_offsets, row, head, stride, KEY_TILE, SIZE)
    q = tl.load(queries + at_query, mask=is_query, other=0.0)
    k = tl.load(keys + at_key, mask=is_key, other=0.0)
    v = tl.load(values + at_key, mask=is_key, other=0.0)
    g = tl.load(grad + at_query, mask=is_query, other=0.0)
    weights = weights_for_queries(q, k, num_queries, num_keys, scale, rows, columns, CAUSAL)
    value_grad = tl.dot(tl.trans(weights.to(g.dtype)), g, input_precision="ieee")
    tl.store(value_grads + at_key, value_grad.to(v.dtype), mask=is_key)
    weight_grad = tl.dot(g, tl.trans(v), input_precision="ieee")
    total = tl.sum(weights * weight_grad, 1)
    score_grad = (weights * (weight_grad - total[:, None]) * scale).to(q.dtype)
    tl.store(query_grads + at_query, tl.dot(score_grad, k, input_precision="ieee").to(q.dtype), mask=is_query)
    key_grad = tl.dot(tl.trans(score_grad), q, input_precision="ieee")
    tl.store(key_grads + at_key, key_grad.to(k.dtype), mask=is_key)
