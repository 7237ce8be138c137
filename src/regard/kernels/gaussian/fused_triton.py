"""Triton kernels of the backward pass of Gaussian attention, from the features that its forward pass read.

    s_ij = q_i . k_j + b_j,  p_ij = e^(s_ij - lse_i),  ds_ij = p_ij (grad_i . v_j - delta_i),
    dq_i = sum_j ds_ij k_j,  dk_j = sum_i ds_ij q_i,  db_j = sum_i ds_ij,  dv_j = sum_i p_ij grad_i

Rows lie one after the other, their vectors S wide, of which the first D are multiplied; the two after them are the
bias. It is added to the finished product, so that products are as large as they must be and no larger. Exponents are of
two: `bias` and `lse` are both in its units.
"""

from regard.kernels.triton_support import LOG2_E, constexpr, jit, tl


@jit
def sides_kernel(
    grad, context, lse, keys, delta, most, bias, num_queries, num_keys, D: constexpr, S: constexpr,
    V: constexpr, ROWS: constexpr,
):  # fmt: skip
    """Of every query sum(grad * context) and the lse, of every key the bias; here both are counted through all rows."""
    at, size = (tl.program_id(0) * ROWS + tl.arange(0, ROWS)).to(tl.int64), tl.arange(0, V)
    asked, there = at < num_queries, at < num_keys
    places = at[:, None] * V + size[None, :]
    one = tl.load(grad + places, mask=asked[:, None], other=0.0).to(tl.float32)
    other = tl.load(context + places, mask=asked[:, None], other=0.0).to(tl.float32)
    tl.store(delta + at, tl.sum(one * other, 1), mask=asked)
    tl.store(most + at, tl.load(lse + at, mask=asked, other=0.0) * LOG2_E, mask=asked)
    first = tl.load(keys + at * S + D, mask=there, other=0.0).to(tl.float32)
    second = tl.load(keys + at * S + D + 1, mask=there, other=0.0).to(tl.float32)
    tl.store(bias + at, (first + second) * LOG2_E, mask=there)


@jit
def tile_of(x, at, length, STEP: constexpr, SIZE: constexpr, EVEN: constexpr):
    """Vectors of one row, zeros past its end."""
    places = x + at[:, None] * STEP + tl.arange(0, SIZE)[None, :]
    if EVEN:
        return tl.load(places)
    else:
        return tl.load(places, mask=(at < length)[:, None], other=0.0)


@jit
def numbers_of(x, at, length, other, EVEN: constexpr):
    """A number for each of some places, and another past the end."""
    if EVEN:
        return tl.load(x + at)
    else:
        return tl.load(x + at, mask=at < length, other=other)


@jit
def keys_part(
    sums, key_tile, value_tile, its_bias, key, queries, grad, most, delta, first, last, num_queries,
    DIAGONAL: constexpr, EVEN: constexpr, D: constexpr, S: constexpr, V: constexpr, BLOCK_Q: constexpr,
    STAGES: constexpr,
):  # fmt: skip
    """The sums of some keys and what a stretch of queries adds to them."""
    key_sum, value_sum, bias_sum = sums
    for start in tl.range(first, last, BLOCK_Q, num_stages=STAGES):
        query = start + tl.arange(0, BLOCK_Q)
        query_tile = tile_of(queries, query, num_queries, S, D, EVEN)
        grad_tile = tile_of(grad, query, num_queries, V, V, EVEN)
        # a query past the end weighs nothing
        its_most = numbers_of(most, query, num_queries, float("inf"), EVEN)
        its_delta = numbers_of(delta, query, num_queries, 0.0, EVEN)
        score = tl.dot(key_tile, tl.trans(query_tile)) * LOG2_E
        weight = tl.exp2(score + its_bias[:, None] - its_most[None, :])
        if DIAGONAL:
            weight = tl.where(query[None, :] >= key[:, None], weight, 0.0)
        value_sum = tl.dot(weight.to(grad_tile.dtype), grad_tile, value_sum)
        change = weight * (tl.dot(value_tile, tl.trans(grad_tile)) - its_delta[None, :])
        bias_sum += tl.sum(change, 1)
        key_sum = tl.dot(change.to(query_tile.dtype), query_tile, key_sum)
    return key_sum, value_sum, bias_sum


@jit
def keys_kernel(
    queries, keys, values, grad, most, delta, bias, key_grad, value_grad, num_queries, num_keys,
    CAUSAL: constexpr, EVEN: constexpr, D: constexpr, S: constexpr, V: constexpr, BLOCK_Q: constexpr,
    BLOCK_K: constexpr, STAGES: constexpr,
):  # fmt: skip
    """Gradients of keys, their bias among them, and of values."""
    blocks = tl.cdiv(num_keys, BLOCK_K)
    row, block = (tl.program_id(0) // blocks).to(tl.int64), tl.program_id(0) % blocks
    keys, values, bias = keys + row * num_keys * S, values + row * num_keys * V, bias + row * num_keys
    queries, grad = queries + row * num_queries * S, grad + row * num_queries * V
    most, delta = most + row * num_queries, delta + row * num_queries
    key = block * BLOCK_K + tl.arange(0, BLOCK_K)
    key_tile, value_tile = tile_of(keys, key, num_keys, S, D, EVEN), tile_of(values, key, num_keys, V, V, EVEN)
    its_bias = numbers_of(bias, key, num_keys, 0.0, EVEN)
    sums = (
        tl.zeros([BLOCK_K, D], tl.float32),
        tl.zeros([BLOCK_K, V], tl.float32),
        tl.zeros([BLOCK_K], tl.float32),
    )
    first = 0
    if CAUSAL:
        # blocks of queries of which some come before some of the keys; those before have nothing to say
        begin = block * BLOCK_K // BLOCK_Q * BLOCK_Q
        first = tl.minimum(tl.cdiv((block + 1) * BLOCK_K, BLOCK_Q) * BLOCK_Q, num_queries)
        sums = keys_part(
            sums, key_tile, value_tile, its_bias, key, queries, grad, most, delta, begin, first, num_queries,
            True, EVEN, D, S, V, BLOCK_Q, STAGES,
        )  # fmt: skip
    key_sum, value_sum, bias_sum = keys_part(
        sums, key_tile, value_tile, its_bias, key, queries, grad, most, delta, first, num_queries, num_queries,
        False, EVEN, D, S, V, BLOCK_Q, STAGES,
    )  # fmt: skip
    dtype = key_grad.dtype.element_ty
    mask = (key < num_keys)[:, None]
    values_out = value_grad + row * num_keys * V + key[:, None] * V
    tl.store(values_out + tl.arange(0, V)[None, :], value_sum.to(dtype), mask=mask)
    out, rest = key_grad + row * num_keys * S + key[:, None] * S, tl.arange(0, S - D)[None, :]
    tl.store(out + tl.arange(0, D)[None, :], key_sum.to(dtype), mask=mask)
    tl.store(out + D + rest, tl.where(rest < 2, bias_sum[:, None], 0.0).to(dtype), mask=mask)


@jit
def queries_part(
    total, query_tile, grad_tile, its_most, its_delta, query, keys, values, bias, first, last, num_keys,
    DIAGONAL: constexpr, EVEN: constexpr, D: constexpr, S: constexpr, V: constexpr, BLOCK_K: constexpr,
    STAGES: constexpr,
):  # fmt: skip
    """The sum of some queries and what a stretch of keys adds to it."""
    for start in tl.range(first, last, BLOCK_K, num_stages=STAGES):
        key = start + tl.arange(0, BLOCK_K)
        key_tile, value_tile = tile_of(keys, key, num_keys, S, D, EVEN), tile_of(values, key, num_keys, V, V, EVEN)
        # a key past the end is out of reach
        its_bias = numbers_of(bias, key, num_keys, float("-inf"), EVEN)
        score = tl.dot(query_tile, tl.trans(key_tile)) * LOG2_E
        weight = tl.exp2(score + its_bias[None, :] - its_most[:, None])
        if DIAGONAL:
            weight = tl.where(query[:, None] >= key[None, :], weight, 0.0)
        change = weight * (tl.dot(grad_tile, tl.trans(value_tile)) - its_delta[:, None])
        total = tl.dot(change.to(key_tile.dtype), key_tile, total)
    return total


@jit
def queries_kernel(
    queries, keys, values, grad, most, delta, bias, query_grad, num_queries, num_keys, CAUSAL: constexpr,
    EVEN: constexpr, D: constexpr, S: constexpr, V: constexpr, BLOCK_Q: constexpr, BLOCK_K: constexpr,
    STAGES: constexpr,
):  # fmt: skip
    """Gradients of queries; there is none for their ones."""
    blocks = tl.cdiv(num_queries, BLOCK_Q)
    row, block = (tl.program_id(0) // blocks).to(tl.int64), tl.program_id(0) % blocks
    keys, values, bias = keys + row * num_keys * S, values + row * num_keys * V, bias + row * num_keys
    query = block * BLOCK_Q + tl.arange(0, BLOCK_Q)
    query_tile = tile_of(queries + row * num_queries * S, query, num_queries, S, D, EVEN)
    grad_tile = tile_of(grad + row * num_queries * V, query, num_queries, V, V, EVEN)
    its_most = numbers_of(most + row * num_queries, query, num_queries, float("inf"), EVEN)
    its_delta = numbers_of(delta + row * num_queries, query, num_queries, 0.0, EVEN)
    last = num_keys
    if CAUSAL:
        # whole blocks of keys that come before all of the queries
        last = tl.minimum(block * BLOCK_Q // BLOCK_K * BLOCK_K, num_keys)
    total = queries_part(
        tl.zeros([BLOCK_Q, D], tl.float32), query_tile, grad_tile, its_most, its_delta, query, keys, values, bias, 0,
        last, num_keys, False, EVEN, D, S, V, BLOCK_K, STAGES,
    )  # fmt: skip
    if CAUSAL:
        end = tl.minimum((block + 1) * BLOCK_Q, num_keys)
        total = queries_part(
            total, query_tile, grad_tile, its_most, its_delta, query, keys, values, bias, last, end, num_keys,
            True, EVEN, D, S, V, BLOCK_K, STAGES,
        )  # fmt: skip
    dtype = query_grad.dtype.element_ty
    mask = (query < num_queries)[:, None]
    out = query_grad + row * num_queries * S + query[:, None] * S
    tl.store(out + tl.arange(0, D)[None, :], total.to(dtype), mask=mask)
    tl.store(out + D + tl.arange(0, S - D)[None, :], tl.zeros([BLOCK_Q, S - D], dtype), mask=mask)
