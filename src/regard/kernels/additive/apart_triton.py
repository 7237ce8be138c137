"""Triton kernels for units that stand apart, whose range their path cannot serve.

    tanh(a + b) = 1 - 2 / (E_a E_b + 1),   1 - tanh^2 = 4 r (1 - r),   E = e^(2x),   r = 1 / (E_a E_b + 1)

E_a E_b may be infinite, and all is well. Units of which even E_a is not a number take tanh itself. Where none stands
apart the kernels look at their number, and are done.
"""

from regard.kernels.additive.read_triton import gradient_scale
from regard.kernels.additive.shared_triton import exponential, reciprocal, tanh
from regard.kernels.tiles import constexpr, jit, tl


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
