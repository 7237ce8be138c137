"""Triton kernels of the exact path: scores, gradients, and units out of range.

Triton kernels of the exact path: scores and their gradients from exponentials, no tanh among the pairs.

    tanh(a + b) = (E_a E_b - 1) / (E_a E_b + 1) = (E_a X_b + X_a) / (E_a E_b + 1),   E = e^(2x),   X = E - 1
    1 - tanh^2  = 4 E_a E_b / (E_a E_b + 1)^2

X keeps the digits that E_a E_b - 1 would lose near 0, but loses others where E_a is large: near units take it, wider
ones put E_b and -1 in the places of X_b and X_a. Two hidden units share one division. Exponentials lie as
(rows, 4 or 2, H, L): E, X and, for queries, the energy's weight times both; H is even and L a multiple of the tiles, so
that tiles read along their length and need no mask. Units that stand apart are zeros here: see units_triton.py.

Triton kernels for units that stand apart, whose range their path cannot serve.

    tanh(a + b) = 1 - 2 / (E_a E_b + 1),   1 - tanh^2 = 4 r (1 - r),   E = e^(2x),   r = 1 / (E_a E_b + 1)

E_a E_b may be infinite, and all is well. Units of which even E_a is not a number take tanh itself. Where none stands
apart the kernels look at their number, and are done.
"""

from regard.kernels.additive.shared_triton import exponential, gradient_scale, reciprocal, tanh
from regard.kernels.triton_support import constexpr, jit, tl


@jit
def exponentials_kernel(
    x, real, units, out, length, padded, REAL: constexpr, IS_QUERY: constexpr, H: constexpr, EVEN_H: constexpr,
    ROWS: constexpr, BLOCK_H: constexpr,
):  # fmt: skip
    """E and X of every number, counted from its unit's middle."""
    row = tl.program_id(0).to(tl.int64)
    place = tl.program_id(1) * ROWS + tl.arange(0, ROWS)
    hidden = tl.program_id(2) * BLOCK_H + tl.arange(0, BLOCK_H)
    there = place < length
    if REAL:
        there = there & (tl.load(real + row * length + place, mask=there, other=0) != 0)
    served = (tl.load(units + 2 * H + hidden, mask=hidden < H, other=0.0) > 0)[None, :]
    inside = there[:, None] & served
    found = tl.load(x + (row * length + place)[:, None] * H + hidden[None, :], mask=inside, other=0.0).to(tl.float32)
    middle = tl.load(units + hidden, mask=hidden < H, other=0.0)[None, :]
    near = tl.load(units + H + hidden, mask=hidden < H, other=2.0)[None, :] > 1
    twice = tl.where(inside, 2.0 * (found - middle if IS_QUERY else found + middle), 0.0)
    power = exponential(twice)
    # e^y - 1 by its series where subtracting would lose digits
    less = twice * (1.0 + twice * (0.5 + twice * (1 / 6 + twice * (1 / 24 + twice * (1 / 120 + twice * (1 / 720))))))
    less = tl.where(tl.abs(twice) < 0.3, less, power - 1.0)
    less = tl.where(near, less, -1.0 if IS_QUERY else power)
    power, less = tl.where(served, power, 0.0), tl.where(served, less, 0.0)
    step = (row * 0 + EVEN_H) * padded
    target = out + row * (4 if IS_QUERY else 2) * step + hidden[None, :] * padded + place[:, None]
    writes = (place < padded)[:, None] & (hidden < EVEN_H)[None, :]
    tl.store(target, power, mask=writes)
    tl.store(target + step, less, mask=writes)
    if IS_QUERY:
        weight = tl.load(units + 3 * H + hidden, mask=hidden < H, other=0.0)[None, :]
        tl.store(target + 2 * step, weight * power, mask=writes)
        tl.store(target + 3 * step, weight * less, mask=writes)


@jit
def fraction(a, b, query_step, key_step):
    """v (E_a X_b + X_a) and E_a E_b + 1 of one hidden unit."""
    above = tl.load(a + 2 * query_step)[:, None] * tl.load(b + key_step)[None, :] + tl.load(a + 3 * query_step)[:, None]
    return above, tl.load(a)[:, None] * tl.load(b)[None, :] + 1.0


@jit
def scores_kernel(
    queries, keys, scores, first_row, first_query, first_key, chunk_queries, chunk_keys, padded_queries, padded_keys,
    EVEN_H: constexpr, BLOCK_Q: constexpr, BLOCK_K: constexpr,
):  # fmt: skip
    """A tile of a chunk's scores, two hidden units at a time: n1/d1 + n2/d2 = (n1 d2 + n2 d1) / (d1 d2)."""
    line, row = tl.program_id(2).to(tl.int64), first_row + tl.program_id(2).to(tl.int64)
    query = tl.program_id(0) * BLOCK_Q + tl.arange(0, BLOCK_Q)
    key = tl.program_id(1) * BLOCK_K + tl.arange(0, BLOCK_K)
    query_step, key_step = (row * 0 + EVEN_H) * padded_queries, (row * 0 + EVEN_H) * padded_keys
    a = queries + row * 4 * query_step + first_query + query
    b = keys + row * 2 * key_step + first_key + key
    tile = tl.zeros([BLOCK_Q, BLOCK_K], tl.float32)
    for _ in range(0, EVEN_H, 2):
        above, below = fraction(a, b, query_step, key_step)
        second_above, second_below = fraction(a + padded_queries, b + padded_keys, query_step, key_step)
        a += 2 * padded_queries
        b += 2 * padded_keys
        tile += (above * second_below + second_above * below) * reciprocal(below * second_below)
    inside = (query < chunk_queries)[:, None] & (key < chunk_keys)[None, :]
    out = scores + line * chunk_queries * chunk_keys + query[:, None] * chunk_keys + key[None, :]
    tl.store(out, tile, mask=inside)


@jit
def one_unit(power_a, less_a, power_b, less_b, share, change, near, IS_QUERY: constexpr):
    """sum_j dS_ij (1 - t^2) and sum_j dS_ij t, given 1 / (E_a E_b + 1)."""
    slope = 4.0 * (power_a * power_b) * (share * share)
    if IS_QUERY:
        t = (power_a * less_b + less_a) * share
        # a query's dS sum to 0, so that 1 - t^2 may go without its 1, beside which a small t^2 would vanish
        slope = tl.where(near, -t * t, slope)
        sums = tl.sum(change * t, 1)
    else:
        sums = tl.sum(share, 1)
    return tl.sum(change * slope, 1), sums


@jit
def two_units(a, b, reach, change, padded, padded_other, step, step_other, IS_QUERY: constexpr):
    """The sums of `one_unit` for one unit and the next, which share a division."""
    power_a, power_b = tl.load(a)[:, None], tl.load(b)[None, :]
    second_a, second_b = tl.load(a + padded)[:, None], tl.load(b + padded_other)[None, :]
    below, second_below = power_a * power_b + 1.0, second_a * second_b + 1.0
    share = reciprocal(below * second_below)
    less_a, less_b = tl.load(a + step)[:, None], tl.load(b + step_other)[None, :]
    slope, total = one_unit(
        power_a, less_a, power_b, less_b, share * second_below, change, tl.load(reach) > 1, IS_QUERY
    )
    less_a, less_b = tl.load(a + step + padded)[:, None], tl.load(b + step_other + padded_other)[None, :]
    second_slope, second_total = one_unit(
        second_a, less_a, second_b, less_b, share * below, change, tl.load(reach + 1) > 1, IS_QUERY
    )
    return slope, total, second_slope, second_total


@jit
def gradients_kernel(
    mine, theirs, units, score_grad, mine_grad, energy_grad, first_row, first, first_other, chunk, chunk_other, count,
    padded, padded_other, mine_step, other_step, IS_QUERY: constexpr, IS_FIRST: constexpr, TERMS: constexpr,
    H: constexpr, EVEN_H: constexpr, UNITS: constexpr, BLOCK: constexpr, BLOCK_OTHER: constexpr,
):  # fmt: skip
    """v_h sum_j dS_ij (1 - t^2) of some hidden units and a block of i, and sum_ij dS_ij t for the energy."""
    line, row = tl.program_id(2).to(tl.int64), first_row + tl.program_id(2).to(tl.int64)
    first_unit = tl.program_id(1) * UNITS
    hidden, column = first_unit + tl.arange(0, UNITS), tl.arange(0, UNITS)[None, :]
    place = tl.program_id(0) * BLOCK + tl.arange(0, BLOCK)
    there = place < chunk
    step, step_other = (row * 0 + EVEN_H) * padded, (row * 0 + EVEN_H) * padded_other
    a = mine + row * (4 if IS_QUERY else 2) * step + first_unit * padded + first + place
    b = theirs + row * (2 if IS_QUERY else 4) * step_other + first_unit * padded_other + first_other
    score_grad += line * chunk * chunk_other
    slopes, sums = tl.zeros([BLOCK, UNITS], tl.float32), tl.zeros([BLOCK, UNITS], tl.float32)
    for start in range(0, chunk_other, BLOCK_OTHER):
        other = start + tl.arange(0, BLOCK_OTHER)
        change = tl.load(
            score_grad + place[:, None] * mine_step + other[None, :] * other_step,
            mask=there[:, None] & (other < chunk_other)[None, :], other=0.0,
        )  # fmt: skip
        for unit in tl.static_range(0, UNITS, 2):
            slope, total, second_slope, second_total = two_units(
                a + unit * padded, b + unit * padded_other + other, units + H + first_unit + unit, change, padded,
                padded_other, step, step_other, IS_QUERY,
            )  # fmt: skip
            slopes += tl.where(column == unit, slope[:, None], 0.0)
            slopes += tl.where(column == unit + 1, second_slope[:, None], 0.0)
            sums += tl.where(column == unit, total[:, None], 0.0)
            sums += tl.where(column == unit + 1, second_total[:, None], 0.0)
    weight = tl.load(units + 3 * H + hidden, mask=hidden < H, other=0.0) * tl.load(units + (4 + TERMS) * H)
    slopes *= weight[None, :]
    inside = there[:, None] & (hidden < H)[None, :]
    out = mine_grad + (row * count + first + place)[:, None] * H + hidden[None, :]
    if not IS_FIRST:
        slopes += tl.load(out, mask=inside, other=0.0)
    tl.store(out, slopes.to(mine_grad.dtype.element_ty), mask=inside)
    if IS_QUERY:
        block = energy_grad + (tl.program_id(2) * tl.num_programs(0) + tl.program_id(0)) * H + hidden
        total = tl.sum(tl.where(inside, sums, 0.0), 0)
        if not IS_FIRST:
            total += tl.load(block, mask=hidden < H, other=0.0)
        tl.store(block, total, mask=hidden < H)


@jit
def apart_scores_kernel(
    queries, keys, units, apart, scores, first_row, first_query, first_key, chunk_queries, chunk_keys, num_queries,
    num_keys, H: constexpr, BLOCK: constexpr,
):  # fmt: skip
    """Adds them to a tile of scores."""
    count = tl.load(apart)
    if count > 0:
        line, row = tl.program_id(2).to(tl.int64), first_row + tl.program_id(2).to(tl.int64)
        query = tl.program_id(0) * BLOCK + tl.arange(0, BLOCK)
        key = tl.program_id(1) * BLOCK + tl.arange(0, BLOCK)
        query_there, key_there = query < chunk_queries, key < chunk_keys
        tile = tl.zeros([BLOCK, BLOCK], tl.float32)
        for number in range(count):
            unit = tl.load(apart + 1 + number)
            at_query = queries + (row * num_queries + first_query + query) * H + unit
            at_key = keys + (row * num_keys + first_key + key) * H + unit
            q = tl.load(at_query, mask=query_there, other=0.0).to(tl.float32)
            k = tl.load(at_key, mask=key_there, other=0.0).to(tl.float32)
            middle = tl.load(units + unit)
            if tl.load(units + H + unit) > 0:
                q, k = exponential(2.0 * (q - middle)), exponential(2.0 * (k + middle))
                found = 1.0 - 2.0 * reciprocal(q[:, None] * k[None, :] + 1.0)
            else:
                found = tanh(q[:, None] + k[None, :])
            tile += tl.load(units + 3 * H + unit) * found
        inside = query_there[:, None] & key_there[None, :]
        out = scores + line * chunk_queries * chunk_keys + query[:, None] * chunk_keys + key[None, :]
        whole = tl.load(out, mask=inside, other=0.0).to(tl.float32) + tile
        tl.store(out, whole.to(scores.dtype.element_ty), mask=inside)


@jit
def apart_gradient(
    x, other, middle, other_middle, reach, score_grad, rows, rows_there, chunk_other, mine_step, other_step,
    H: constexpr, ROWS: constexpr, BLOCK_OTHER: constexpr,
):  # fmt: skip
    """sum_j dS_ij (1 - t^2) and sum_j dS_ij t of one hidden unit, t = tanh(x_i + other_j).

    Element (i, j) of the scores' gradient is at i * mine_step + j * other_step.
    """
    slopes, sums = tl.zeros([ROWS], tl.float32), tl.zeros([ROWS], tl.float32)
    mine = tl.load(x + rows.to(tl.int64) * H, mask=rows_there, other=0.0).to(tl.float32)
    power = exponential(2.0 * (mine - middle))
    for start in range(0, chunk_other, BLOCK_OTHER):
        place = start + tl.arange(0, BLOCK_OTHER)
        there = place < chunk_other
        theirs = tl.load(other + place.to(tl.int64) * H, mask=there, other=0.0).to(tl.float32)
        change = tl.load(
            score_grad + rows[:, None] * mine_step + place[None, :] * other_step,
            mask=rows_there[:, None] & there[None, :], other=0.0,
        ).to(tl.float32)  # fmt: skip
        if reach > 0:
            share = reciprocal(power[:, None] * exponential(2.0 * (theirs - other_middle))[None, :] + 1.0)
            slope, t = 4.0 * share * (1.0 - share), 1.0 - 2.0 * share
        else:
            t = tanh(mine[:, None] + theirs[None, :])
            slope = 1.0 - t * t
        # what is not read has no gradient, whatever it holds
        slopes += tl.sum(tl.where(change == 0.0, 0.0, change * slope), 1)
        sums += tl.sum(tl.where(change == 0.0, 0.0, change * t), 1)
    return slopes, sums


@jit
def apart_gradients_kernel(
    queries, keys, units, apart, score_grad, largest, dropout, query_grad, key_grad, energy_grad, first_row,
    first_query, first_key, chunk_queries, chunk_keys, num_queries, num_keys, query_blocks, energy_blocks,
    SCALES: constexpr, TERMS: constexpr, H: constexpr, SHARE: constexpr, BLOCK: constexpr,
):  # fmt: skip
    """Adds what they are due to a block of queries and to the energy's sums, or to a block of keys.

    The sums have a row for every SHARE queries, of which this fills the block's first.
    """
    count = tl.load(apart)
    if count > 0:
        line, row = tl.program_id(1).to(tl.int64), first_row + tl.program_id(1).to(tl.int64)
        block, is_query = tl.program_id(0), tl.program_id(0) < query_blocks
        if not is_query:
            block -= query_blocks
        chunk, place = (chunk_queries if is_query else chunk_keys), block * BLOCK + tl.arange(0, BLOCK)
        there = place < chunk
        mine_step, other_step = (chunk_keys if is_query else 1), (1 if is_query else chunk_keys)
        at_queries, at_keys = row * num_queries + first_query, row * num_keys + first_key
        change = score_grad + line * chunk_queries * chunk_keys
        back = 1.0 / gradient_scale(largest, dropout) if SCALES else 1.0
        for number in range(count):
            unit = tl.load(apart + 1 + number)
            weight = tl.load(units + 3 * H + unit) * tl.load(units + (4 + TERMS) * H)
            q, k = queries + at_queries * H + unit, keys + at_keys * H + unit
            middle, reach = tl.load(units + unit), tl.load(units + H + unit)
            if is_query:
                slopes, sums = apart_gradient(
                    q, k, middle, -middle, reach, change, place, there, chunk_keys, mine_step, other_step, H, BLOCK,
                    BLOCK,
                )  # fmt: skip
                out = query_grad + (at_queries + place) * H + unit
                total = energy_grad + (line * energy_blocks + block * (BLOCK // SHARE)) * H + unit
                tl.store(total, tl.load(total) + tl.sum(tl.where(there, sums, 0.0), 0) * back)
            else:
                slopes, sums = apart_gradient(
                    k, q, -middle, middle, reach, change, place, there, chunk_queries, mine_step, other_step, H, BLOCK,
                    BLOCK,
                )  # fmt: skip
                out = key_grad + (at_keys + place) * H + unit
            found = tl.load(out, mask=there, other=0.0).to(tl.float32) + slopes * (weight * back)
            tl.store(out, found.to(query_grad.dtype.element_ty), mask=there)
