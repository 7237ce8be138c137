"""Triton kernels that the sine path and the exact path share.

    softmax_kernel, gradient_kernel     softmax and dropout of a chunk of scores; dS = P (dP - delta)
    delta_kernel, gradient_scale        delta = sum(dO * O), and a bound of |dS| from the norms of dO and V
    ranges_kernel, fit_units_kernel     the range of q + k of every hidden unit, and what serves it

Scores lie as (batch elements of the chunk, its queries, its keys) and lack the energy's scale (see below). Their
gradient overwrites them.

`units` holds rows of H numbers: middle; range class, 2 where all exponentials are small, 1 where they are finite, else
0; frequency, 0 for an outlier unit; weight; then c_1 .. c_R. After them comes the energy's scale, by which the weights
were divided. `outliers` lists the units whose range the path cannot serve, their number first. Both are computed on the
device, so that no value has to be copied to the host.
"""

from regard.kernels.triton_support import INTERPRETED, LOG2_E, constexpr, jit, tl


@jit
def tanh(x):
    """tanh to float32's last digits: an odd polynomial near 0, exponentials elsewhere."""
    # both branches are computed for every lane; the exponential one cancels below 0.625
    square = x * x
    near = -5.70498872745e-3
    near = near * square + 2.06390887954e-2
    near = near * square - 5.37397155531e-2
    near = near * square + 1.33314422036e-1
    near = near * square - 3.33332819422e-1
    near = near * square * x + x
    # of -2|x|, so that the exponential cannot overflow
    small = tl.exp(-2.0 * tl.abs(x))
    far = (1.0 - small) / (1.0 + small)
    far = tl.where(x < 0, -far, far)
    return tl.where(tl.abs(x) < 0.625, near, far)


@jit
def allowed_tile(
    low, high, key_mask, pair_mask, batch, query, key, query_valid, key_valid, num_queries, num_keys,
    HAS_LOW: constexpr, HAS_HIGH: constexpr, HAS_KEY_MASK: constexpr, PAIR_MASKS: constexpr,
):  # fmt: skip
    """Which pairs of a tile are allowed. PAIR_MASKS: 1 if one mask serves the batch, 2 if each element has its own."""
    allowed, position = query_valid[:, None] & key_valid[None, :], batch * num_queries + query
    if HAS_LOW:
        allowed = allowed & (key[None, :] >= tl.load(low + position, mask=query_valid, other=0)[:, None])
    if HAS_HIGH:
        allowed = allowed & (key[None, :] < tl.load(high + position, mask=query_valid, other=0)[:, None])
    if HAS_KEY_MASK:
        allowed = allowed & (tl.load(key_mask + batch * num_keys + key, mask=key_valid, other=0) != 0)[None, :]
    if PAIR_MASKS > 0:
        line = position if PAIR_MASKS == 2 else query.to(tl.int64)
        # last, and masked by the cheap parts: a quadratic mask is loaded only where they leave the question open
        allowed = allowed & (tl.load(pair_mask + line[:, None] * num_keys + key[None, :], mask=allowed, other=0) != 0)
    return allowed


@jit
def dropout_tile(seed, batch, query, key, dropout):
    """0 where a weight is dropped, else 1 / (1 - p): a function of seed and position, so backward repeats it."""
    column = (key[None, :] + query[:, None] * 0).to(tl.int32)
    line = (query[:, None] + key[None, :] * 0).to(tl.int32)
    draw, _, _, _ = tl.philox(tl.load(seed), column, line, column * 0 + batch, column * 0)
    return tl.where(tl.uint_to_uniform_float(draw) >= dropout, 1.0 / (1.0 - dropout), 0.0)


@jit
def exponential(x):
    """e^x to the last digits as 2^n e^r; the hardware's own loses as many digits as x is large."""
    whole = tl.floor(x * LOG2_E + 0.5)
    # ln 2 in two parts (Cody and Waite): whole * high is exact, so the remainder keeps its digits
    rest = (x - whole * 0.693145751953125) - whole * 1.428606765330187e-06
    return tl.exp2(rest * LOG2_E) * tl.exp2(whole)


@jit
def reciprocal(x):
    """1 / x in one instruction, to the last digit but one; a division takes several."""
    if INTERPRETED:
        inverse = 1.0 / x
    else:
        inverse = tl.inline_asm_elementwise("rcp.approx.ftz.f32 $0, $1;", "=f,f", [x], tl.float32, True, 1)
    return inverse


@jit
def sine_and_cosine(angle):
    """Both, for angles up to 2.4, from the Taylor series of the half angle."""
    # at most 1.2, where six terms reach float32's precision
    half = 0.5 * angle
    square = half * half
    sine = -2.50521084e-8 * square + 2.75573192e-6
    sine = (sine * square - 1.98412698e-4) * square + 8.33333333e-3
    sine = ((sine * square - 1.66666667e-1) * square + 1.0) * half
    cosine = 2.08767570e-9 * square - 2.75573192e-7
    cosine = (cosine * square + 2.48015873e-5) * square - 1.38888889e-3
    cosine = ((cosine * square + 4.16666667e-2) * square - 0.5) * square + 1.0
    # 1 - 2 sin^2 instead of 2 cos^2 - 1: exact near angle 0
    return 2.0 * sine * cosine, 1.0 - 2.0 * sine * sine


@jit
def scaled_scores(scores, units, query, key, query_valid, key_valid, num_keys, TERMS: constexpr, H: constexpr):
    """A tile of scores, multiplied by the energy's scale, in float32."""
    inside = query_valid[:, None] & key_valid[None, :]
    tile = tl.load(scores + query[:, None] * num_keys + key[None, :], mask=inside, other=0.0).to(tl.float32)
    return tile * tl.load(units + (4 + TERMS) * H)


@jit
def softmax_kernel(
    scores, units, low, high, key_mask, pair_mask, seed, dropout, weights, lse, first_batch, first_query, first_key,
    chunk_queries, chunk_keys, num_queries, num_keys, HAS_LOW: constexpr, HAS_HIGH: constexpr, HAS_KEY_MASK: constexpr,
    PAIR_MASKS: constexpr, HAS_DROPOUT: constexpr, TERMS: constexpr, H: constexpr, ROWS: constexpr, BLOCK_K: constexpr,
):  # fmt: skip
    """Weights over a chunk's keys, which may overwrite the scores, and their log-sum-exp.

    One program holds all keys of ROWS queries, so the softmax needs one load and no second pass.
    """
    # 64 bits: offsets of long inputs exceed 2^31
    local, batch = tl.program_id(1).to(tl.int64), first_batch + tl.program_id(1).to(tl.int64)
    query, key = tl.program_id(0) * ROWS + tl.arange(0, ROWS), tl.arange(0, BLOCK_K)
    query_valid, key_valid = query < chunk_queries, key < chunk_keys
    tile = scaled_scores(
        scores + local * chunk_queries * chunk_keys, units, query, key, query_valid, key_valid, chunk_keys, TERMS, H
    )
    allowed = allowed_tile(
        low, high, key_mask, pair_mask, batch, first_query + query, first_key + key, query_valid, key_valid,
        num_queries, num_keys, HAS_LOW, HAS_HIGH, HAS_KEY_MASK, PAIR_MASKS,
    )  # fmt: skip
    # in powers of 2, which is what the hardware computes
    tile = tl.where(allowed, tile * LOG2_E, float("-inf"))
    peak = tl.max(tile, 1)
    # a query with nothing to attend to: -inf - (-inf) would be NaN
    base = tl.where(peak == float("-inf"), 0.0, peak)
    weight = tl.exp2(tile - base[:, None])
    total = tl.sum(weight, 1)
    # and its weights are 0, not 0 / 0
    weight = weight / tl.where(total == 0.0, 1.0, total)[:, None]
    if HAS_DROPOUT:
        # after the division: dropped weights still count in the sum, as in F.dropout(softmax(scores))
        weight *= dropout_tile(seed, batch.to(tl.int32), first_query + query, first_key + key, dropout)
    out = weights + (local * chunk_queries + query)[:, None] * chunk_keys + key[None, :]
    tl.store(out, weight.to(weights.dtype.element_ty), mask=query_valid[:, None] & key_valid[None, :])
    tl.store(lse + local * chunk_queries + query, (peak + tl.log2(total)) * 0.6931471805599453, mask=query_valid)


@jit
def delta_kernel(
    grad, context, values, key_mask, delta, norms, num_rows, num_values, HAS_KEY_MASK: constexpr, V: constexpr,
    ROWS: constexpr, BLOCK_V: constexpr,
):  # fmt: skip
    """delta = sum(grad * context) of every query, and the largest norms of a gradient and of a value."""
    rows = (tl.program_id(0) * ROWS + tl.arange(0, ROWS)).to(tl.int64)
    size = tl.arange(0, BLOCK_V)
    offsets = rows[:, None] * V + size[None, :]
    inside = (rows < num_rows)[:, None] & (size < V)[None, :]
    g = tl.load(grad + offsets, mask=inside, other=0.0).to(tl.float32)
    c = tl.load(context + offsets, mask=inside, other=0.0).to(tl.float32)
    tl.store(delta + rows, tl.sum(g * c, 1), mask=rows < num_rows)
    # floats that are not negative have the order of their bits as integers, for which there is an atomic maximum
    tl.atomic_max(norms, tl.max(tl.sqrt(tl.sum(g * g, 1)), 0).to(tl.int32, bitcast=True))
    valid = rows < num_values
    if HAS_KEY_MASK:
        # before the load: a masked value may be NaN or huge, and would spoil the bound
        valid = valid & (tl.load(key_mask + rows, mask=valid, other=0) != 0)
    v = tl.load(values + offsets, mask=valid[:, None] & (size < V)[None, :], other=0.0).to(tl.float32)
    tl.atomic_max(norms + 1, tl.max(tl.sqrt(tl.sum(v * v, 1)), 0).to(tl.int32, bitcast=True))


@jit
def gradient_scale(norms, dropout):
    """A power of two that brings the largest possible gradient of a score to 2^14, a quarter of float16's range."""
    grad_norm = tl.load(norms).to(tl.float32, bitcast=True)
    # |dS| <= |dP - delta| <= 2 |dO| |V|, and dropout divides the weights by 1 - p
    bound = 2.0 * grad_norm * tl.load(norms + 1).to(tl.float32, bitcast=True) / (1.0 - dropout)
    usable = (bound > 1e-30) & (bound < 1e30)
    # a power of two, so that scaling and its inverse round nothing
    return tl.where(usable, tl.exp2(14.0 - tl.ceil(tl.log2(tl.where(usable, bound, 1.0)))), 1.0)


@jit
def gradient_kernel(
    scores, units, low, high, key_mask, pair_mask, seed, dropout, values, grad, lse, delta, norms,
    weights, first_batch, first_query, first_key, chunk_queries, chunk_keys, num_queries, num_keys,
    HAS_LOW: constexpr, HAS_HIGH: constexpr, HAS_KEY_MASK: constexpr, PAIR_MASKS: constexpr, HAS_DROPOUT: constexpr,
    SCALES: constexpr, TERMS: constexpr, H: constexpr, V: constexpr, BLOCK_Q: constexpr, BLOCK_K: constexpr,
    BLOCK_V: constexpr,
):  # fmt: skip
    """dS = P (dP - delta), which overwrites S, and P for the gradient of the values; SCALES: dS in half precision."""
    local, batch = tl.program_id(2).to(tl.int64), first_batch + tl.program_id(2).to(tl.int64)
    query = tl.program_id(0) * BLOCK_Q + tl.arange(0, BLOCK_Q)
    key = tl.program_id(1) * BLOCK_K + tl.arange(0, BLOCK_K)
    query_valid, key_valid, size = query < chunk_queries, key < chunk_keys, tl.arange(0, BLOCK_V)
    scores += local * chunk_queries * chunk_keys
    tile = scaled_scores(scores, units, query, key, query_valid, key_valid, chunk_keys, TERMS, H)
    allowed = allowed_tile(
        low, high, key_mask, pair_mask, batch, first_query + query, first_key + key, query_valid, key_valid,
        num_queries, num_keys, HAS_LOW, HAS_HIGH, HAS_KEY_MASK, PAIR_MASKS,
    )  # fmt: skip
    position = batch * num_queries + first_query + query
    norm = tl.load(lse + position, mask=query_valid, other=0.0)
    # `where` after the exponential: without a key, lse is -inf and the exponential is not a number
    weight = tl.where(allowed, tl.exp2((tile - norm[:, None]) * LOG2_E), 0.0)
    value_valid = key_valid
    if HAS_KEY_MASK:
        key_mask += batch * num_keys + first_key
        value_valid = value_valid & (tl.load(key_mask + key, mask=key_valid, other=0) != 0)
    value = tl.load(
        values + (batch * num_keys + first_key + key)[None, :] * V + size[:, None],
        mask=value_valid[None, :] & (size < V)[:, None], other=0.0,
    )  # fmt: skip
    g = tl.load(
        grad + position[:, None] * V + size[None, :], mask=query_valid[:, None] & (size < V)[None, :], other=0.0
    )
    # three TF32 products nearly reach float32's precision, on tensor cores; half precision is not affected
    weight_grad = tl.dot(g, value, input_precision="tf32x3")
    dropped_weight = weight
    if HAS_DROPOUT:
        factors = dropout_tile(seed, batch.to(tl.int32), first_query + query, first_key + key, dropout)
        weight_grad, dropped_weight = weight_grad * factors, dropped_weight * factors
    score_grad = weight * (weight_grad - tl.load(delta + position, mask=query_valid, other=0.0)[:, None])
    # a weight of 0 times a value that is not finite is NaN, and no gradient may reach a masked pair
    score_grad = tl.where(allowed, score_grad, 0.0)
    if SCALES:
        score_grad *= gradient_scale(norms, dropout)
    inside = query_valid[:, None] & key_valid[None, :]
    out = local * chunk_queries * chunk_keys + query[:, None] * chunk_keys + key[None, :]
    tl.store(scores + query[:, None] * chunk_keys + key[None, :], score_grad.to(scores.dtype.element_ty), mask=inside)
    tl.store(weights + out, dropped_weight.to(weights.dtype.element_ty), mask=inside)


@jit
def add_energy_sums(energy_grad, total, hidden, IS_FIRST: constexpr, H: constexpr):
    """Write or add a program's partial sum of the energy's gradient.

    One row per program, added up later: atomics would add in a different order in each run.
    """
    out = energy_grad + (tl.program_id(2) * tl.num_programs(0) + tl.program_id(0)) * H + hidden
    if not IS_FIRST:
        total += tl.load(out, mask=hidden < H, other=0.0)
    tl.store(out, total, mask=hidden < H)


@jit
def ranges_kernel(
    queries, keys, key_mask, partial, num_queries, num_keys, blocks, HAS_KEY_MASK: constexpr, H: constexpr,
    RANGE: constexpr, ROWS: constexpr, BLOCK_H: constexpr,
):  # fmt: skip
    """Minimum and maximum of each hidden unit over RANGE rows of queries or keys; NaN counts as infinite."""
    block, side = tl.program_id(0), tl.program_id(1)
    hidden = tl.arange(0, BLOCK_H)
    low = tl.full([BLOCK_H], float("inf"), tl.float32)
    high = tl.full([BLOCK_H], float("-inf"), tl.float32)
    count = num_queries if side == 0 else num_keys
    for start in range(0, RANGE, ROWS):
        rows = (block * RANGE + start + tl.arange(0, ROWS)).to(tl.int64)
        valid = rows < count
        if HAS_KEY_MASK and side == 1:
            # before the load: masked keys may hold anything and must not widen the range
            valid = valid & (tl.load(key_mask + rows, mask=valid, other=0) != 0)
        inside = valid[:, None] & (hidden < H)[None, :]
        offsets = rows[:, None] * H + hidden[None, :]
        if side == 0:
            x = tl.load(queries + offsets, mask=inside, other=0.0).to(tl.float32)
        else:
            x = tl.load(keys + offsets, mask=inside, other=0.0).to(tl.float32)
        # minimum and maximum may drop a NaN; an infinity makes its unit an outlier, which computes tanh of it
        x = tl.where(x == x, x, float("inf"))  # noqa: PLR0124 - false for NaN
        low = tl.minimum(low, tl.min(tl.where(inside, x, float("inf")), 0))
        high = tl.maximum(high, tl.max(tl.where(inside, x, float("-inf")), 0))
    out = partial + (side * blocks + block) * 2 * H + hidden
    tl.store(out, low, mask=hidden < H)
    tl.store(out + H, high, mask=hidden < H)


@jit
def extremes(partial, blocks, hidden, inside, H: constexpr, BLOCK_H: constexpr, ROWS: constexpr):
    """Minimum and maximum over all blocks of one side; 0 where all of its rows are masked."""
    low = tl.full([BLOCK_H], float("inf"), tl.float32)
    high = tl.full([BLOCK_H], float("-inf"), tl.float32)
    for start in range(0, blocks, ROWS):
        block = start + tl.arange(0, ROWS)
        mask = (block < blocks)[:, None] & inside[None, :]
        offsets = block[:, None] * 2 * H + hidden[None, :]
        low = tl.minimum(low, tl.min(tl.load(partial + offsets, mask=mask, other=float("inf")), 0))
        high = tl.maximum(high, tl.max(tl.load(partial + H + offsets, mask=mask, other=float("-inf")), 0))
    return tl.where(low <= high, low, 0.0), tl.where(low <= high, high, 0.0)


@jit
def fit_units_kernel(
    partial, energy, frequencies, coefficients, units, outliers, blocks, widest, smallest_octave, per_octave,
    SINE: constexpr, COUNT: constexpr, TERMS: constexpr, H: constexpr, BLOCK_H: constexpr, ROWS: constexpr,
):  # fmt: skip
    """For every hidden unit: its middle, the series for its range, and whether the path serves it.

    A series is fitted for |q + k| up to `widest`; the exponentials of the exact path allow |q| and |k|, measured from
    the middle, up to `widest`.
    """
    hidden = tl.arange(0, BLOCK_H)
    inside = hidden < H
    q_low, q_high = extremes(partial, blocks, hidden, inside, H, BLOCK_H, ROWS)
    k_low, k_high = extremes(partial + blocks * 2 * H, blocks, hidden, inside, H, BLOCK_H, ROWS)
    width = tl.maximum(tl.abs(q_low + k_low), tl.abs(q_high + k_high))
    # only q + k matters: the middle moves both ranges towards 0
    middle = (q_low + q_high - k_low - k_high) / 4
    middle = tl.where(tl.abs(middle) < float("inf"), middle, 0.0)
    farthest = tl.maximum(tl.maximum(q_high - middle, middle - q_low), tl.maximum(k_high + middle, -middle - k_low))
    step = tl.ceil((tl.log2(tl.maximum(width, 1e-30)) - smallest_octave) * per_octave)
    fits = (width if SINE else farthest) <= widest
    # clamped, because lanes that do not fit load from the table as well
    row = tl.minimum(tl.maximum(tl.where(fits, step, 0.0), 0.0), COUNT - 1).to(tl.int32)
    weight = tl.load(energy + hidden, mask=inside, other=0.0).to(tl.float32)
    # features in half precision: an energy of at most 1 keeps them within 1; the scores are multiplied by it later
    largest = tl.max(tl.abs(weight), 0)
    scale = tl.where(largest > 0, largest, 1.0)
    tl.store(units + hidden, middle, mask=inside)
    # e^(2 * 43) and its inverse are float32 numbers
    range_class = (farthest <= 43.0).to(tl.float32) + (farthest <= 1.0).to(tl.float32)
    tl.store(units + H + hidden, range_class, mask=inside)
    tl.store(units + 2 * H + hidden, tl.where(fits, tl.load(frequencies + row), 0.0), mask=inside)
    tl.store(units + 3 * H + hidden, weight / scale, mask=inside)
    for term in tl.static_range(TERMS):
        coefficient = tl.load(coefficients + row * TERMS + term)
        tl.store(units + (4 + term) * H + hidden, tl.where(fits, coefficient, 0.0), mask=inside)
    tl.store(units + (4 + TERMS) * H, scale)
    # a running count gives each outlier its index in the list, which needs no atomic and has one order
    is_outlier = inside & (fits == 0)
    index = tl.cumsum(is_outlier.to(tl.int32), 0)
    tl.store(outliers + index, hidden, mask=is_outlier)
    tl.store(outliers, tl.sum(is_outlier.to(tl.int32), 0))
