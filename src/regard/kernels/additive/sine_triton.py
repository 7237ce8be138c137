"""Triton kernels of the sine path: features of queries and keys, and from their gradient back to what they are made of.

Tensors are contiguous: x (rows, H), features and their gradients (rows, 2 R, H).
"""

from regard.kernels.additive.shared_triton import gradient_scale, sine_and_cosine
from regard.kernels.triton_support import constexpr, jit, tl


@jit
def features_kernel(
    x, real, units, features, num_rows, REAL: constexpr, IS_QUERY: constexpr, TERMS: constexpr, H: constexpr,
    ROWS: constexpr, BLOCK_H: constexpr,
):  # fmt: skip
    """c_r sin and c_r cos of a query's angles, cos and sin of a key's: their products are sines of the sum."""
    rows = (tl.program_id(0) * ROWS + tl.arange(0, ROWS)).to(tl.int64)
    hidden = tl.program_id(1) * BLOCK_H + tl.arange(0, BLOCK_H)
    inside = (rows < num_rows)[:, None] & (hidden < H)[None, :]
    angle = angles(x, real, units, rows, hidden, inside, num_rows, REAL, IS_QUERY, H)
    sine, cosine = sine_and_cosine(angle)
    sine_before, cosine_before = -sine, cosine
    twice = 2.0 * (2.0 * cosine * cosine - 1.0)
    weight = tl.load(units + 3 * H + hidden, mask=hidden < H, other=0.0)[None, :]
    out = features + rows[:, None] * (2 * TERMS * H) + hidden[None, :]
    for term in tl.static_range(TERMS):
        if IS_QUERY:
            factor = weight * tl.load(units + (4 + term) * H + hidden, mask=hidden < H, other=0.0)[None, :]
            tl.store(out, (factor * sine).to(features.dtype.element_ty), mask=inside)
            tl.store(out + H, (factor * cosine).to(features.dtype.element_ty), mask=inside)
        else:
            tl.store(out, cosine.to(features.dtype.element_ty), mask=inside)
            tl.store(out + H, sine.to(features.dtype.element_ty), mask=inside)
        out += 2 * H
        # sin((2r+1)t) = 2 cos(2t) sin((2r-1)t) - sin((2r-3)t), and cosines alike
        sine, sine_before = twice * sine - sine_before, sine
        cosine, cosine_before = twice * cosine - cosine_before, cosine


@jit
def angles(
    x, real, units, rows, hidden, inside, num_rows, REAL: constexpr, IS_QUERY: constexpr, H: constexpr
):  # fmt: skip
    """w (x - middle) of a query, w (x + middle) of a key; 0 where the unit stands apart or the key is not there."""
    middle = tl.load(units + hidden, mask=hidden < H, other=0.0)[None, :]
    frequency = tl.load(units + 2 * H + hidden, mask=hidden < H, other=0.0)[None, :]
    there = inside & (frequency > 0)
    if REAL:
        there = there & (tl.load(real + rows, mask=rows < num_rows, other=0) != 0)[:, None]
    found = tl.load(x + rows[:, None] * H + hidden[None, :], mask=there, other=0.0).to(tl.float32)
    shifted = found - middle if IS_QUERY else found + middle
    return tl.where(there, frequency * shifted, 0.0)


@jit
def sums_over_terms(angle, source, units, hidden, inside, IS_QUERY: constexpr, TERMS: constexpr, H: constexpr):
    """The slope of x times what its features are due, without the energy's size; for queries that of the energy too."""
    sine, cosine = sine_and_cosine(angle)
    sine_before, cosine_before = -sine, cosine
    twice = 2.0 * (2.0 * cosine * cosine - 1.0)
    found, weight_found = tl.zeros_like(angle), tl.zeros_like(angle)
    for term in tl.static_range(TERMS):
        first_part = tl.load(source, mask=inside, other=0.0).to(tl.float32)
        second_part = tl.load(source + H, mask=inside, other=0.0).to(tl.float32)
        source += 2 * H
        if IS_QUERY:
            factor = tl.load(units + (4 + term) * H + hidden, mask=hidden < H, other=0.0)[None, :]
            found += (2 * term + 1) * factor * (cosine * first_part - sine * second_part)
            weight_found += factor * (sine * first_part + cosine * second_part)
        else:
            found += (2 * term + 1) * (cosine * second_part - sine * first_part)
        sine, sine_before = twice * sine - sine_before, sine
        cosine, cosine_before = twice * cosine - cosine_before, cosine
    found *= tl.load(units + 2 * H + hidden, mask=hidden < H, other=0.0)[None, :]
    if IS_QUERY:
        found *= tl.load(units + 3 * H + hidden, mask=hidden < H, other=0.0)[None, :]
    return found, weight_found


@jit
def fold_kernel(
    feature_grad, x, real, units, largest, dropout, x_grad, energy_grad, first_row, first, chunk, count,
    REAL: constexpr, IS_QUERY: constexpr, IS_FIRST: constexpr, TERMS: constexpr, H: constexpr, ROWS: constexpr,
    BLOCK_H: constexpr,
):  # fmt: skip
    """From the features' gradient to that of what they were made of, and of the energy: sums over the terms."""
    line, row = tl.program_id(2).to(tl.int64), first_row + tl.program_id(2).to(tl.int64)
    rows = tl.program_id(0) * ROWS + tl.arange(0, ROWS)
    hidden = tl.program_id(1) * BLOCK_H + tl.arange(0, BLOCK_H)
    rows_there, hidden_there = rows < chunk, hidden < H
    inside = rows_there[:, None] & hidden_there[None, :]
    start = row * count + first
    angle = angles(x + start * H, real + start, units, rows.to(tl.int64), hidden, inside, chunk, REAL, IS_QUERY, H)
    source = feature_grad + (line * chunk + rows)[:, None] * (2 * TERMS * H) + hidden[None, :]
    found, weight_found = sums_over_terms(angle, source, units, hidden, inside, IS_QUERY, TERMS, H)
    back = 1.0 / gradient_scale(largest, dropout)
    out = x_grad + (start + rows)[:, None] * H + hidden[None, :]
    found = tl.where(inside, found * (back * tl.load(units + (4 + TERMS) * H)), 0.0)
    if not IS_FIRST:
        found += tl.load(out, mask=inside, other=0.0)
    tl.store(out, found.to(x_grad.dtype.element_ty), mask=inside)
    if IS_QUERY:
        total = tl.sum(tl.where(inside, weight_found, 0.0), 0) * back
        block = energy_grad + (tl.program_id(2) * tl.num_programs(0) + tl.program_id(0)) * H + hidden
        if not IS_FIRST:
            total += tl.load(block, mask=hidden_there, other=0.0)
        tl.store(block, total, mask=hidden_there)
