"""Triton kernels that read a chunk of scores: softmax, dropout and values forward, the scores' gradient backward.

Scores lie as (rows of the chunk, its queries, its keys), and lack the energy's size: see units_triton.py. Their
gradient takes their place.
"""

from regard.kernels.additive.shared_triton import allowed_tile, kept_tile
from regard.kernels.tiles import LOG2_E, constexpr, jit, tl


@jit
def sized_scores(scores, units, query, key, query_there, key_there, num_keys, TERMS: constexpr, H: constexpr):
    """A tile of scores, in the energy's own size."""
    inside = query_there[:, None] & key_there[None, :]
    tile = tl.load(scores + query[:, None] * num_keys + key[None, :], mask=inside, other=0.0).to(tl.float32)
    return tile * tl.load(units + (4 + TERMS) * H)


@jit
def softmax_kernel(
    scores, units, low, high, real, written, seed, dropout, weights, lse, first_row, first_query, first_key,
    chunk_queries, chunk_keys, num_queries, num_keys, LOW: constexpr, HIGH: constexpr, REAL: constexpr,
    WRITTEN: constexpr, DROPS: constexpr, TERMS: constexpr, H: constexpr, ROWS: constexpr, BLOCK_K: constexpr,
):  # fmt: skip
    """Weights of a chunk's keys, which may take the scores' place, and the logarithm of what they were divided by."""
    line, row = tl.program_id(1).to(tl.int64), first_row + tl.program_id(1).to(tl.int64)
    query, key = tl.program_id(0) * ROWS + tl.arange(0, ROWS), tl.arange(0, BLOCK_K)
    query_there, key_there = query < chunk_queries, key < chunk_keys
    tile = sized_scores(
        scores + line * chunk_queries * chunk_keys, units, query, key, query_there, key_there, chunk_keys, TERMS, H
    )
    allowed = allowed_tile(
        low, high, real, written, row, first_query + query, first_key + key, query_there, key_there, num_queries,
        num_keys, LOW, HIGH, REAL, WRITTEN,
    )  # fmt: skip
    tile = tl.where(allowed, tile * LOG2_E, float("-inf"))
    top = tl.max(tile, 1)
    base = tl.where(top == float("-inf"), 0.0, top)
    weight = tl.exp2(tile - base[:, None])
    total = tl.sum(weight, 1)
    # a query with nothing to read has weights of 0
    weight = weight / tl.where(total == 0.0, 1.0, total)[:, None]
    if DROPS:
        weight *= kept_tile(seed, row.to(tl.int32), first_query + query, first_key + key, dropout)
    out = weights + (line * chunk_queries + query)[:, None] * chunk_keys + key[None, :]
    tl.store(out, weight.to(weights.dtype.element_ty), mask=query_there[:, None] & key_there[None, :])
    tl.store(lse + line * chunk_queries + query, (top + tl.log2(total)) * 0.6931471805599453, mask=query_there)


@jit
def delta_kernel(
    grad, context, values, real, delta, largest, num_rows, num_values, REAL: constexpr, V: constexpr, ROWS: constexpr,
    BLOCK_V: constexpr,
):  # fmt: skip
    """sum(grad * context) of every query, and the longest gradient and the longest value, as ordered bits."""
    rows = (tl.program_id(0) * ROWS + tl.arange(0, ROWS)).to(tl.int64)
    size = tl.arange(0, BLOCK_V)
    places = rows[:, None] * V + size[None, :]
    inside = (rows < num_rows)[:, None] & (size < V)[None, :]
    g = tl.load(grad + places, mask=inside, other=0.0).to(tl.float32)
    c = tl.load(context + places, mask=inside, other=0.0).to(tl.float32)
    tl.store(delta + rows, tl.sum(g * c, 1), mask=rows < num_rows)
    tl.atomic_max(largest, tl.max(tl.sqrt(tl.sum(g * g, 1)), 0).to(tl.int32, bitcast=True))
    there = rows < num_values
    if REAL:
        there = there & (tl.load(real + rows, mask=there, other=0) != 0)
    v = tl.load(values + places, mask=there[:, None] & (size < V)[None, :], other=0.0).to(tl.float32)
    tl.atomic_max(largest + 1, tl.max(tl.sqrt(tl.sum(v * v, 1)), 0).to(tl.int32, bitcast=True))


@jit
def gradient_scale(largest, dropout):
    """A power of two that brings the largest possible gradient of a score near 2^14, where half precision is dense."""
    longest = tl.load(largest).to(tl.float32, bitcast=True)
    bound = 2.0 * longest * tl.load(largest + 1).to(tl.float32, bitcast=True) / (1.0 - dropout)
    usable = (bound > 1e-30) & (bound < 1e30)
    return tl.where(usable, tl.exp2(14.0 - tl.ceil(tl.log2(tl.where(usable, bound, 1.0)))), 1.0)


@jit
def gradient_kernel(
    scores, units, low, high, real, written, seed, dropout, values, grad, lse, delta, largest,
    weights, first_row, first_query, first_key, chunk_queries, chunk_keys, num_queries, num_keys,
    LOW: constexpr, HIGH: constexpr, REAL: constexpr, WRITTEN: constexpr, DROPS: constexpr,
    SCALES: constexpr, TERMS: constexpr, H: constexpr, V: constexpr, BLOCK_Q: constexpr, BLOCK_K: constexpr,
    BLOCK_V: constexpr,
):  # fmt: skip
    """dS = P (dP - delta) in the place of S, scaled where it is in half precision, and the weights for the values."""
    line, row = tl.program_id(2).to(tl.int64), first_row + tl.program_id(2).to(tl.int64)
    query = tl.program_id(0) * BLOCK_Q + tl.arange(0, BLOCK_Q)
    key = tl.program_id(1) * BLOCK_K + tl.arange(0, BLOCK_K)
    query_there, key_there, size = query < chunk_queries, key < chunk_keys, tl.arange(0, BLOCK_V)
    scores += line * chunk_queries * chunk_keys
    tile = sized_scores(scores, units, query, key, query_there, key_there, chunk_keys, TERMS, H)
    allowed = allowed_tile(
        low, high, real, written, row, first_query + query, first_key + key, query_there, key_there, num_queries,
        num_keys, LOW, HIGH, REAL, WRITTEN,
    )  # fmt: skip
    place = row * num_queries + first_query + query
    norm = tl.load(lse + place, mask=query_there, other=0.0)
    weight = tl.where(allowed, tl.exp2((tile - norm[:, None]) * LOG2_E), 0.0)
    value_there = key_there
    if REAL:
        value_there = value_there & (tl.load(real + row * num_keys + first_key + key, mask=key_there, other=0) != 0)
    value = tl.load(
        values + (row * num_keys + first_key + key)[None, :] * V + size[:, None],
        mask=value_there[None, :] & (size < V)[:, None], other=0.0,
    )  # fmt: skip
    g = tl.load(grad + place[:, None] * V + size[None, :], mask=query_there[:, None] & (size < V)[None, :], other=0.0)
    weight_grad = tl.dot(g, value, input_precision="tf32x3")
    used = weight
    if DROPS:
        kept = kept_tile(seed, row.to(tl.int32), first_query + query, first_key + key, dropout)
        weight_grad, used = weight_grad * kept, used * kept
    change = weight * (weight_grad - tl.load(delta + place, mask=query_there, other=0.0)[:, None])
    change = tl.where(allowed, change, 0.0)
    if SCALES:
        change *= gradient_scale(largest, dropout)
    inside = query_there[:, None] & key_there[None, :]
    out = line * chunk_queries * chunk_keys + query[:, None] * chunk_keys + key[None, :]
    tl.store(scores + query[:, None] * chunk_keys + key[None, :], change.to(scores.dtype.element_ty), mask=inside)
    tl.store(weights + out, used.to(weights.dtype.element_ty), mask=inside)
