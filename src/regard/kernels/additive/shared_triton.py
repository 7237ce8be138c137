"""Triton kernels that several additive paths share: softmax and values of a chunk, ranges of hidden units.

Triton pieces that several additive kernels share.

Triton kernels that read a chunk of scores: softmax, dropout and values forward, the scores' gradient backward.

Scores lie as (rows of the chunk, its queries, its keys), and lack the energy's size: see units_triton.py. Their
gradient takes their place.

Triton kernels that look at every hidden unit's range, so that the device itself chooses what serves it.

`units` holds, each a row of H: middle; reach, 2 where all exponentials are small numbers, 1 where they are numbers at
all and 0 beyond; frequency, 0 where the unit stands apart; weight; then c_1 .. c_R. After them comes the energy's size,
by which the weights were divided. `apart` lists the units whose range the path cannot serve, their number first.
"""

from regard.kernels.triton_support import INTERPRETED, LOG2_E, constexpr, jit, tl


@jit
def tanh(x):
    """To float32's last digits: odd polynomial near 0, exponentials elsewhere."""
    square = x * x
    near = -5.70498872745e-3
    near = near * square + 2.06390887954e-2
    near = near * square - 5.37397155531e-2
    near = near * square + 1.33314422036e-1
    near = near * square - 3.33332819422e-1
    near = near * square * x + x
    small = tl.exp(-2.0 * tl.abs(x))
    far = (1.0 - small) / (1.0 + small)
    far = tl.where(x < 0, -far, far)
    return tl.where(tl.abs(x) < 0.625, near, far)


@jit
def allowed_tile(
    low, high, real, written, row, query, key, query_there, key_there, num_queries, num_keys, LOW: constexpr,
    HIGH: constexpr, REAL: constexpr, WRITTEN: constexpr,
):  # fmt: skip
    """Which pairs of a tile are there and may be read. WRITTEN: 1 if one mask serves all rows, 2 if each has one."""
    allowed, place = query_there[:, None] & key_there[None, :], row * num_queries + query
    if LOW:
        allowed = allowed & (key[None, :] >= tl.load(low + place, mask=query_there, other=0)[:, None])
    if HIGH:
        allowed = allowed & (key[None, :] < tl.load(high + place, mask=query_there, other=0)[:, None])
    if REAL:
        allowed = allowed & (tl.load(real + row * num_keys + key, mask=key_there, other=0) != 0)[None, :]
    if WRITTEN > 0:
        line = place if WRITTEN == 2 else query.to(tl.int64)
        allowed = allowed & (tl.load(written + line[:, None] * num_keys + key[None, :], mask=allowed, other=0) != 0)
    return allowed


@jit
def kept_tile(seed, row, query, key, dropout):
    """1 / (1 - p) where a weight is kept, 0 where it is dropped; the same whenever it is asked."""
    column = (key[None, :] + query[:, None] * 0).to(tl.int32)
    line = (query[:, None] + key[None, :] * 0).to(tl.int32)
    draw, _, _, _ = tl.philox(tl.load(seed), column, line, column * 0 + row, column * 0)
    return tl.where(tl.uint_to_uniform_float(draw) >= dropout, 1.0 / (1.0 - dropout), 0.0)


@jit
def exponential(x):
    """e^x to the last digits: the hardware's own loses as many as x is large."""
    whole = tl.floor(x * LOG2_E + 0.5)
    rest = (x - whole * 0.693145751953125) - whole * 1.428606765330187e-06
    return tl.exp2(rest * LOG2_E) * tl.exp2(whole)


@jit
def reciprocal(x):
    """1 / x in one instruction, to the last digit but one."""
    if INTERPRETED:
        found = 1.0 / x
    else:
        found = tl.inline_asm_elementwise("rcp.approx.ftz.f32 $0, $1;", "=f,f", [x], tl.float32, True, 1)
    return found


@jit
def sine_and_cosine(angle):
    """Both, for angles up to 2.4, by the series of the half angle."""
    half = 0.5 * angle
    square = half * half
    sine = -2.50521084e-8 * square + 2.75573192e-6
    sine = (sine * square - 1.98412698e-4) * square + 8.33333333e-3
    sine = ((sine * square - 1.66666667e-1) * square + 1.0) * half
    cosine = 2.08767570e-9 * square - 2.75573192e-7
    cosine = (cosine * square + 2.48015873e-5) * square - 1.38888889e-3
    cosine = ((cosine * square + 4.16666667e-2) * square - 0.5) * square + 1.0
    return 2.0 * sine * cosine, 1.0 - 2.0 * sine * sine


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


@jit
def ranges_kernel(
    queries, keys, real, partial, num_queries, num_keys, blocks, REAL: constexpr, H: constexpr,
    RANGE: constexpr, ROWS: constexpr, BLOCK_H: constexpr,
):  # fmt: skip
    """The least and greatest of each hidden unit in a block of rows; what is not a number is beyond every range."""
    block, side = tl.program_id(0), tl.program_id(1)
    hidden = tl.arange(0, BLOCK_H)
    low = tl.full([BLOCK_H], float("inf"), tl.float32)
    high = tl.full([BLOCK_H], float("-inf"), tl.float32)
    count = num_queries if side == 0 else num_keys
    for start in range(0, RANGE, ROWS):
        rows = (block * RANGE + start + tl.arange(0, ROWS)).to(tl.int64)
        there = rows < count
        if REAL and side == 1:
            there = there & (tl.load(real + rows, mask=there, other=0) != 0)
        inside = there[:, None] & (hidden < H)[None, :]
        places = rows[:, None] * H + hidden[None, :]
        if side == 0:
            x = tl.load(queries + places, mask=inside, other=0.0).to(tl.float32)
        else:
            x = tl.load(keys + places, mask=inside, other=0.0).to(tl.float32)
        x = tl.where(x == x, x, float("inf"))  # noqa: PLR0124 - not a number
        low = tl.minimum(low, tl.min(tl.where(inside, x, float("inf")), 0))
        high = tl.maximum(high, tl.max(tl.where(inside, x, float("-inf")), 0))
    out = partial + (side * blocks + block) * 2 * H + hidden
    tl.store(out, low, mask=hidden < H)
    tl.store(out + H, high, mask=hidden < H)


@jit
def extremes(partial, blocks, hidden, inside, H: constexpr, BLOCK_H: constexpr, ROWS: constexpr):
    """The least and greatest over all blocks of one side; 0 where the side has no rows."""
    low = tl.full([BLOCK_H], float("inf"), tl.float32)
    high = tl.full([BLOCK_H], float("-inf"), tl.float32)
    for start in range(0, blocks, ROWS):
        block = start + tl.arange(0, ROWS)
        mask = (block < blocks)[:, None] & inside[None, :]
        places = block[:, None] * 2 * H + hidden[None, :]
        low = tl.minimum(low, tl.min(tl.load(partial + places, mask=mask, other=float("inf")), 0))
        high = tl.maximum(high, tl.max(tl.load(partial + H + places, mask=mask, other=float("-inf")), 0))
    return tl.where(low <= high, low, 0.0), tl.where(low <= high, high, 0.0)


@jit
def settle_kernel(
    partial, energy, frequencies, coefficients, units, apart, blocks, widest, smallest_octave, per_octave,
    SINE: constexpr, COUNT: constexpr, TERMS: constexpr, H: constexpr, BLOCK_H: constexpr, ROWS: constexpr,
):  # fmt: skip
    """For every hidden unit: its middle, the fit for its range, and whether the path serves it.

    A series fits up to `widest`; exponentials, counted from the middle, are served up to `widest` if not SINE.
    """
    hidden = tl.arange(0, BLOCK_H)
    inside = hidden < H
    q_low, q_high = extremes(partial, blocks, hidden, inside, H, BLOCK_H, ROWS)
    k_low, k_high = extremes(partial + blocks * 2 * H, blocks, hidden, inside, H, BLOCK_H, ROWS)
    width = tl.maximum(tl.abs(q_low + k_low), tl.abs(q_high + k_high))
    middle = (q_low + q_high - k_low - k_high) / 4
    middle = tl.where(tl.abs(middle) < float("inf"), middle, 0.0)
    farthest = tl.maximum(tl.maximum(q_high - middle, middle - q_low), tl.maximum(k_high + middle, -middle - k_low))
    step = tl.ceil((tl.log2(tl.maximum(width, 1e-30)) - smallest_octave) * per_octave)
    fits = (width if SINE else farthest) <= widest
    row = tl.minimum(tl.maximum(tl.where(fits, step, 0.0), 0.0), COUNT - 1).to(tl.int32)
    weight = tl.load(energy + hidden, mask=inside, other=0.0).to(tl.float32)
    # features in half precision have few digits below 1, so the energy is taken at most 1; the scores get it back
    largest = tl.max(tl.abs(weight), 0)
    scale = tl.where(largest > 0, largest, 1.0)
    tl.store(units + hidden, middle, mask=inside)
    # e^(2 * 43) and its inverse are still float32's
    reach = (farthest <= 43.0).to(tl.float32) + (farthest <= 1.0).to(tl.float32)
    tl.store(units + H + hidden, reach, mask=inside)
    tl.store(units + 2 * H + hidden, tl.where(fits, tl.load(frequencies + row), 0.0), mask=inside)
    tl.store(units + 3 * H + hidden, weight / scale, mask=inside)
    for term in tl.static_range(TERMS):
        found = tl.load(coefficients + row * TERMS + term)
        tl.store(units + (4 + term) * H + hidden, tl.where(fits, found, 0.0), mask=inside)
    tl.store(units + (4 + TERMS) * H, scale)
    out = inside & (fits == 0)
    place = tl.cumsum(out.to(tl.int32), 0)
    tl.store(apart + place, hidden, mask=out)
    tl.store(apart, tl.sum(out.to(tl.int32), 0))
