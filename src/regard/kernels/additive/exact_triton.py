"""Triton kernels of the exact path, from exponentials of queries and keys, and of outlier units.

    tanh(a + b) = (E_a E_b - 1) / (E_a E_b + 1) = (E_a X_b + X_a) / (E_a E_b + 1),   E = e^(2x),   X = E - 1
    1 - tanh^2  = 4 E_a E_b / (E_a E_b + 1)^2

X keeps the digits that E_a E_b - 1 would lose near 0, but loses others where E_a is large: units within 1 of their
middle take X, wider ones E_b and -1 in its place. Two hidden units share one division. Exponentials lie as
(batch, 4 or 2, H, L): E, X and, for queries, the energy's weight times both; H is even and L a multiple of the tiles,
so that tiles are read along their length without a mask. Outlier units are zeros there.

Outlier units, whose range the sine path or the exact path cannot serve, are added pair by pair to either:

    tanh(a + b) = 1 - 2 r,   1 - tanh^2 = 4 r (1 - r),   r = 1 / (E_a E_b + 1)

E_a E_b may be infinite: r is then 0. Units of which E_a itself is not finite take tanh. Where there are no outliers,
these kernels load their number and end.
"""

from regard.kernels.additive.shared_triton import add_energy_sums, exponential, gradient_scale, reciprocal, tanh
from regard.kernels.triton_support import constexpr, jit, tl


@jit
def exponentials_kernel(
    x, key_mask, units, out, length, padded, HAS_KEY_MASK: constexpr, IS_QUERY: constexpr, H: constexpr,
    EVEN_H: constexpr, ROWS: constexpr, BLOCK_H: constexpr,
):  # fmt: skip
    """E and X of every element of x, measured from its unit's middle."""
    batch = tl.program_id(0).to(tl.int64)
    position = tl.program_id(1) * ROWS + tl.arange(0, ROWS)
    hidden = tl.program_id(2) * BLOCK_H + tl.arange(0, BLOCK_H)
    valid = position < length
    if HAS_KEY_MASK:
        # before the load of x, which may be NaN there
        valid = valid & (tl.load(key_mask + batch * length + position, mask=valid, other=0) != 0)
    in_range = (tl.load(units + 2 * H + hidden, mask=hidden < H, other=0.0) > 0)[None, :]
    inside = valid[:, None] & in_range
    tile = tl.load(x + (batch * length + position)[:, None] * H + hidden[None, :], mask=inside, other=0.0)
    tile = tile.to(tl.float32)
    middle = tl.load(units + hidden, mask=hidden < H, other=0.0)[None, :]
    is_near = tl.load(units + H + hidden, mask=hidden < H, other=2.0)[None, :] > 1
    twice = tl.where(inside, 2.0 * (tile - middle if IS_QUERY else tile + middle), 0.0)
    exp = exponential(twice)
    # e^y - 1 by its series where the subtraction would lose digits
    expm1 = twice * (1.0 + twice * (0.5 + twice * (1 / 6 + twice * (1 / 24 + twice * (1 / 120 + twice * (1 / 720))))))
    expm1 = tl.where(tl.abs(twice) < 0.3, expm1, exp - 1.0)
    # wide units: E_a X_b + X_a becomes E_a E_b - 1, by the same instructions
    expm1 = tl.where(is_near, expm1, -1.0 if IS_QUERY else exp)
    exp, expm1 = tl.where(in_range, exp, 0.0), tl.where(in_range, expm1, 0.0)
    # `batch * 0` makes it 64 bits wide
    step = (batch * 0 + EVEN_H) * padded
    target = out + batch * (4 if IS_QUERY else 2) * step + hidden[None, :] * padded + position[:, None]
    # the padding is written too, since tiles load it without a mask
    writes = (position < padded)[:, None] & (hidden < EVEN_H)[None, :]
    tl.store(target, exp, mask=writes)
    tl.store(target + step, expm1, mask=writes)
    if IS_QUERY:
        weight = tl.load(units + 3 * H + hidden, mask=hidden < H, other=0.0)[None, :]
        tl.store(target + 2 * step, weight * exp, mask=writes)
        tl.store(target + 3 * step, weight * expm1, mask=writes)


@jit
def weighted_fraction(a, b, query_step, key_step):
    """Numerator v (E_a X_b + X_a) and denominator E_a E_b + 1 of one hidden unit."""
    weighted_exp, weighted_expm1 = tl.load(a + 2 * query_step)[:, None], tl.load(a + 3 * query_step)[:, None]
    return weighted_exp * tl.load(b + key_step)[None, :] + weighted_expm1, tl.load(a)[:, None] * tl.load(b)[
        None, :
    ] + 1.0


@jit
def scores_kernel(
    queries, keys, scores, first_batch, first_query, first_key, chunk_queries, chunk_keys, padded_queries, padded_keys,
    EVEN_H: constexpr, BLOCK_Q: constexpr, BLOCK_K: constexpr,
):  # fmt: skip
    """A tile of a chunk's scores, two hidden units at a time: n1/d1 + n2/d2 = (n1 d2 + n2 d1) / (d1 d2)."""
    local, batch = tl.program_id(2).to(tl.int64), first_batch + tl.program_id(2).to(tl.int64)
    query = tl.program_id(0) * BLOCK_Q + tl.arange(0, BLOCK_Q)
    key = tl.program_id(1) * BLOCK_K + tl.arange(0, BLOCK_K)
    query_step, key_step = (batch * 0 + EVEN_H) * padded_queries, (batch * 0 + EVEN_H) * padded_keys
    a = queries + batch * 4 * query_step + first_query + query
    b = keys + batch * 2 * key_step + first_key + key
    tile = tl.zeros([BLOCK_Q, BLOCK_K], tl.float32)
    # the reciprocal is the slowest instruction here, so it serves two units; d1 d2 stays below float32's largest
    # number because |a| and |b| are at most 10.5
    for _ in range(0, EVEN_H, 2):
        numerator, denominator = weighted_fraction(a, b, query_step, key_step)
        second_numerator, second_denominator = weighted_fraction(
            a + padded_queries, b + padded_keys, query_step, key_step
        )
        a += 2 * padded_queries
        b += 2 * padded_keys
        tile += (numerator * second_denominator + second_numerator * denominator) * reciprocal(
            denominator * second_denominator
        )
    inside = (query < chunk_queries)[:, None] & (key < chunk_keys)[None, :]
    out = scores + local * chunk_queries * chunk_keys + query[:, None] * chunk_keys + key[None, :]
    tl.store(out, tile, mask=inside)


@jit
def unit_sums(exp_a, expm1_a, exp_b, expm1_b, inverse, score_grad, is_near, IS_QUERY: constexpr):
    """sum_j dS_ij (1 - t^2) and, for queries, sum_j dS_ij t, given inverse = 1 / (E_a E_b + 1)."""
    slope = 4.0 * (exp_a * exp_b) * (inverse * inverse)
    if IS_QUERY:
        t = (exp_a * expm1_b + expm1_a) * inverse
        # a query's dS sum to 0, so the 1 of 1 - t^2 may be left out: beside it a small t^2 would lose its digits
        slope = tl.where(is_near, -t * t, slope)
        sums = tl.sum(score_grad * t, 1)
    else:
        # not used by keys; only its shape matters
        sums = tl.sum(inverse, 1)
    return tl.sum(score_grad * slope, 1), sums


@jit
def unit_pair_sums(a, b, range_class, score_grad, padded, other_padded, step, other_step, IS_QUERY: constexpr):
    """`unit_sums` for one unit and the next, which share a division."""
    exp_a, exp_b = tl.load(a)[:, None], tl.load(b)[None, :]
    second_exp_a, second_exp_b = tl.load(a + padded)[:, None], tl.load(b + other_padded)[None, :]
    denominator, second_denominator = exp_a * exp_b + 1.0, second_exp_a * second_exp_b + 1.0
    # 1 / d1 = d2 / (d1 d2)
    inverse = reciprocal(denominator * second_denominator)
    expm1_a, expm1_b = tl.load(a + step)[:, None], tl.load(b + other_step)[None, :]
    slope, total = unit_sums(
        exp_a, expm1_a, exp_b, expm1_b, inverse * second_denominator, score_grad, tl.load(range_class) > 1, IS_QUERY
    )
    expm1_a, expm1_b = tl.load(a + step + padded)[:, None], tl.load(b + other_step + other_padded)[None, :]
    second_slope, second_total = unit_sums(
        second_exp_a, expm1_a, second_exp_b, expm1_b, inverse * denominator, score_grad,
        tl.load(range_class + 1) > 1, IS_QUERY,
    )  # fmt: skip
    return slope, total, second_slope, second_total


@jit
def gradients_kernel(
    own, other, units, score_grad, own_grad, energy_grad, first_batch, first_own, first_other, chunk, chunk_other,
    count, padded, other_padded, own_stride, other_stride, IS_QUERY: constexpr, IS_FIRST: constexpr, TERMS: constexpr,
    H: constexpr, EVEN_H: constexpr, UNITS: constexpr, BLOCK: constexpr, BLOCK_OTHER: constexpr,
):  # fmt: skip
    """v_h sum_j dS_ij (1 - t^2) of UNITS hidden units and a block of i (own), and sum_ij dS_ij t for the energy."""
    local, batch = tl.program_id(2).to(tl.int64), first_batch + tl.program_id(2).to(tl.int64)
    first_unit = tl.program_id(1) * UNITS
    hidden, column = first_unit + tl.arange(0, UNITS), tl.arange(0, UNITS)[None, :]
    position = tl.program_id(0) * BLOCK + tl.arange(0, BLOCK)
    valid = position < chunk
    step, other_step = (batch * 0 + EVEN_H) * padded, (batch * 0 + EVEN_H) * other_padded
    a = own + batch * (4 if IS_QUERY else 2) * step + first_unit * padded + first_own + position
    b = other + batch * (2 if IS_QUERY else 4) * other_step + first_unit * other_padded + first_other
    score_grad += local * chunk * chunk_other
    slopes, sums = tl.zeros([BLOCK, UNITS], tl.float32), tl.zeros([BLOCK, UNITS], tl.float32)
    # all units of the program inside: a tile of the scores' gradient is loaded once for UNITS of them
    for start in range(0, chunk_other, BLOCK_OTHER):
        other_position = start + tl.arange(0, BLOCK_OTHER)
        # 0 past the end, so that the exponentials of the padding, which are finite, count nothing
        grad_tile = tl.load(
            score_grad + position[:, None] * own_stride + other_position[None, :] * other_stride,
            mask=valid[:, None] & (other_position < chunk_other)[None, :], other=0.0,
        )  # fmt: skip
        for unit in tl.static_range(0, UNITS, 2):
            slope, total, second_slope, second_total = unit_pair_sums(
                a + unit * padded, b + unit * other_padded + other_position, units + H + first_unit + unit, grad_tile,
                padded, other_padded, step, other_step, IS_QUERY,
            )  # fmt: skip
            # Triton cannot assign to a column of a tile; the comparison does
            slopes += tl.where(column == unit, slope[:, None], 0.0)
            slopes += tl.where(column == unit + 1, second_slope[:, None], 0.0)
            sums += tl.where(column == unit, total[:, None], 0.0)
            sums += tl.where(column == unit + 1, second_total[:, None], 0.0)
    weight = tl.load(units + 3 * H + hidden, mask=hidden < H, other=0.0) * tl.load(units + (4 + TERMS) * H)
    slopes *= weight[None, :]
    inside = valid[:, None] & (hidden < H)[None, :]
    out = own_grad + (batch * count + first_own + position)[:, None] * H + hidden[None, :]
    if not IS_FIRST:
        slopes += tl.load(out, mask=inside, other=0.0)
    tl.store(out, slopes.to(own_grad.dtype.element_ty), mask=inside)
    if IS_QUERY:
        add_energy_sums(energy_grad, tl.sum(tl.where(inside, sums, 0.0), 0), hidden, IS_FIRST, H)


@jit
def outlier_scores_kernel(
    queries, keys, units, outliers, scores, first_batch, first_query, first_key, chunk_queries, chunk_keys,
    num_queries, num_keys, H: constexpr, BLOCK: constexpr,
):  # fmt: skip
    """Add the outlier units to a tile of scores."""
    # the number is known on the device alone; without outliers the program ends here
    count = tl.load(outliers)
    if count > 0:
        local, batch = tl.program_id(2).to(tl.int64), first_batch + tl.program_id(2).to(tl.int64)
        query = tl.program_id(0) * BLOCK + tl.arange(0, BLOCK)
        key = tl.program_id(1) * BLOCK + tl.arange(0, BLOCK)
        query_valid, key_valid = query < chunk_queries, key < chunk_keys
        tile = tl.zeros([BLOCK, BLOCK], tl.float32)
        for index in range(count):
            unit = tl.load(outliers + 1 + index)
            at_query = queries + (batch * num_queries + first_query + query) * H + unit
            at_key = keys + (batch * num_keys + first_key + key) * H + unit
            q = tl.load(at_query, mask=query_valid, other=0.0).to(tl.float32)
            k = tl.load(at_key, mask=key_valid, other=0.0).to(tl.float32)
            middle = tl.load(units + unit)
            if tl.load(units + H + unit) > 0:
                # one exponential per row and column of the tile, and a reciprocal per pair
                q, k = exponential(2.0 * (q - middle)), exponential(2.0 * (k + middle))
                t = 1.0 - 2.0 * reciprocal(q[:, None] * k[None, :] + 1.0)
            else:
                t = tanh(q[:, None] + k[None, :])
            tile += tl.load(units + 3 * H + unit) * t
        inside = query_valid[:, None] & key_valid[None, :]
        out = scores + local * chunk_queries * chunk_keys + query[:, None] * chunk_keys + key[None, :]
        total = tl.load(out, mask=inside, other=0.0).to(tl.float32) + tile
        tl.store(out, total.to(scores.dtype.element_ty), mask=inside)


@jit
def outlier_sums(
    x, other, middle, other_middle, range_class, score_grad, rows, row_valid, chunk_other, own_stride, other_stride,
    H: constexpr, ROWS: constexpr, BLOCK_OTHER: constexpr,
):  # fmt: skip
    """sum_j dS_ij (1 - t^2) and sum_j dS_ij t of one hidden unit, t = tanh(x_i + other_j).

    Element (i, j) of the scores' gradient is at i * own_stride + j * other_stride.
    """
    slopes, sums = tl.zeros([ROWS], tl.float32), tl.zeros([ROWS], tl.float32)
    own_x = tl.load(x + rows.to(tl.int64) * H, mask=row_valid, other=0.0).to(tl.float32)
    exp = exponential(2.0 * (own_x - middle))
    for start in range(0, chunk_other, BLOCK_OTHER):
        position = start + tl.arange(0, BLOCK_OTHER)
        valid = position < chunk_other
        other_x = tl.load(other + position.to(tl.int64) * H, mask=valid, other=0.0).to(tl.float32)
        grad_tile = tl.load(
            score_grad + rows[:, None] * own_stride + position[None, :] * other_stride,
            mask=row_valid[:, None] & valid[None, :], other=0.0,
        ).to(tl.float32)  # fmt: skip
        if range_class > 0:
            inverse = reciprocal(exp[:, None] * exponential(2.0 * (other_x - other_middle))[None, :] + 1.0)
            slope, t = 4.0 * inverse * (1.0 - inverse), 1.0 - 2.0 * inverse
        else:
            t = tanh(own_x[:, None] + other_x[None, :])
            slope = 1.0 - t * t
        # masked inputs may be NaN here, and 0 * NaN is NaN: a pair without gradient adds exactly 0
        slopes += tl.sum(tl.where(grad_tile == 0.0, 0.0, grad_tile * slope), 1)
        sums += tl.sum(tl.where(grad_tile == 0.0, 0.0, grad_tile * t), 1)
    return slopes, sums


@jit
def outlier_gradients_kernel(
    queries, keys, units, outliers, score_grad, norms, dropout, query_grad, key_grad, energy_grad, first_batch,
    first_query, first_key, chunk_queries, chunk_keys, num_queries, num_keys, query_blocks, energy_blocks,
    SCALES: constexpr, TERMS: constexpr, H: constexpr, ENERGY_BLOCK: constexpr, BLOCK: constexpr,
):  # fmt: skip
    """Add the outlier units to the gradients of a block of queries and of the energy, or of a block of keys.

    The energy's sums have a row for every ENERGY_BLOCK queries, of which this adds to the block's first.
    """
    count = tl.load(outliers)
    if count > 0:
        local, batch = tl.program_id(1).to(tl.int64), first_batch + tl.program_id(1).to(tl.int64)
        # one launch for both sides: the first programs take the queries, the others the keys
        block, is_query = tl.program_id(0), tl.program_id(0) < query_blocks
        if not is_query:
            block -= query_blocks
        chunk, position = (chunk_queries if is_query else chunk_keys), block * BLOCK + tl.arange(0, BLOCK)
        valid = position < chunk
        own_stride, other_stride = (chunk_keys if is_query else 1), (1 if is_query else chunk_keys)
        at_queries, at_keys = batch * num_queries + first_query, batch * num_keys + first_key
        score_grad += local * chunk_queries * chunk_keys
        unscale = 1.0 / gradient_scale(norms, dropout) if SCALES else 1.0
        for index in range(count):
            unit = tl.load(outliers + 1 + index)
            weight = tl.load(units + 3 * H + unit) * tl.load(units + (4 + TERMS) * H)
            q, k = queries + at_queries * H + unit, keys + at_keys * H + unit
            middle, range_class = tl.load(units + unit), tl.load(units + H + unit)
            if is_query:
                slopes, sums = outlier_sums(
                    q, k, middle, -middle, range_class, score_grad, position, valid, chunk_keys, own_stride,
                    other_stride, H, BLOCK, BLOCK,
                )  # fmt: skip
                out = query_grad + (at_queries + position) * H + unit
                total = energy_grad + (local * energy_blocks + block * (BLOCK // ENERGY_BLOCK)) * H + unit
                tl.store(total, tl.load(total) + tl.sum(tl.where(valid, sums, 0.0), 0) * unscale)
            else:
                slopes, sums = outlier_sums(
                    k, q, -middle, middle, range_class, score_grad, position, valid, chunk_queries, own_stride,
                    other_stride, H, BLOCK, BLOCK,
                )  # fmt: skip
                out = key_grad + (at_keys + position) * H + unit
            # no other program writes this unit of these rows, so a load and a store need no atomic
            grad = tl.load(out, mask=valid, other=0.0).to(tl.float32) + slopes * (weight * unscale)
            tl.store(out, grad.to(query_grad.dtype.element_ty), mask=valid)
