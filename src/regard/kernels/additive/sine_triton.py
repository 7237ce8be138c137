"""Triton kernels of the sine path: features of queries and keys, and the gradients of their inputs.

    feature 2r-1, 2r of a query: v c_r sin((2r-1) t), v c_r cos((2r-1) t);  of a key: cos, sin;   t = w (x -+ middle)

Tensors are contiguous: x is (rows, H), features and their gradients are (rows, 2 R, H).
"""

from regard.kernels.additive.shared_triton import add_energy_sums, gradient_scale, sine_and_cosine
from regard.kernels.triton_support import constexpr, jit, tl


@jit
def features_kernel(
    x, key_mask, units, features, num_rows, HAS_KEY_MASK: constexpr, IS_QUERY: constexpr, TERMS: constexpr,
    H: constexpr, ROWS: constexpr, BLOCK_H: constexpr,
):  # fmt: skip
    """c_r sin and c_r cos of a query's angles, cos and sin of a key's: their products are sines of the sum."""
    rows = (tl.program_id(0) * ROWS + tl.arange(0, ROWS)).to(tl.int64)
    hidden = tl.program_id(1) * BLOCK_H + tl.arange(0, BLOCK_H)
    inside = (rows < num_rows)[:, None] & (hidden < H)[None, :]
    angle = unit_angles(x, key_mask, units, rows, hidden, inside, num_rows, HAS_KEY_MASK, IS_QUERY, H)
    sine, cosine = sine_and_cosine(angle)
    # sin(-t) and cos(-t): the recurrence below starts from r = 0 and r = 1
    previous_sine, previous_cosine = -sine, cosine
    double_cosine = 2.0 * (2.0 * cosine * cosine - 1.0)  # 2 cos(2t)
    weight = tl.load(units + 3 * H + hidden, mask=hidden < H, other=0.0)[None, :]
    out = features + rows[:, None] * (2 * TERMS * H) + hidden[None, :]
    for term in tl.static_range(TERMS):
        if IS_QUERY:
            # energy and coefficients multiply the queries alone: one side is enough
            factor = weight * tl.load(units + (4 + term) * H + hidden, mask=hidden < H, other=0.0)[None, :]
            tl.store(out, (factor * sine).to(features.dtype.element_ty), mask=inside)
            tl.store(out + H, (factor * cosine).to(features.dtype.element_ty), mask=inside)
        else:
            tl.store(out, cosine.to(features.dtype.element_ty), mask=inside)
            tl.store(out + H, sine.to(features.dtype.element_ty), mask=inside)
        out += 2 * H
        # sin((2r+1)t) = 2 cos(2t) sin((2r-1)t) - sin((2r-3)t), and cosines alike: two operations instead of a sine
        sine, previous_sine = double_cosine * sine - previous_sine, sine
        cosine, previous_cosine = double_cosine * cosine - previous_cosine, cosine


@jit
def unit_angles(
    x, key_mask, units, rows, hidden, inside, num_rows, HAS_KEY_MASK: constexpr, IS_QUERY: constexpr, H: constexpr
):  # fmt: skip
    """w (x - middle) of a query, w (x + middle) of a key; 0 for outlier units and masked keys."""
    middle = tl.load(units + hidden, mask=hidden < H, other=0.0)[None, :]
    frequency = tl.load(units + 2 * H + hidden, mask=hidden < H, other=0.0)[None, :]
    valid = inside & (frequency > 0)
    if HAS_KEY_MASK:
        # before the load of x: a masked key may be NaN, which the product with a weight of 0 would not remove
        valid = valid & (tl.load(key_mask + rows, mask=rows < num_rows, other=0) != 0)[:, None]
    tile = tl.load(x + rows[:, None] * H + hidden[None, :], mask=valid, other=0.0).to(tl.float32)
    centred = tile - middle if IS_QUERY else tile + middle
    return tl.where(valid, frequency * centred, 0.0)


@jit
def sum_over_terms(angle, feature_grad, units, hidden, inside, IS_QUERY: constexpr, TERMS: constexpr, H: constexpr):
    """Gradient of x from the gradients of its features, without the energy's scale; for queries the energy's too.

    The slopes are (2r-1) w c_r cos and -(2r-1) w c_r sin; the energy's gradient has sin and cos in their place.
    """
    sine, cosine = sine_and_cosine(angle)
    previous_sine, previous_cosine = -sine, cosine
    double_cosine = 2.0 * (2.0 * cosine * cosine - 1.0)  # 2 cos(2t)
    # summed in float32: the terms have either sign and cancel
    input_grad, energy_grad = tl.zeros_like(angle), tl.zeros_like(angle)
    for term in tl.static_range(TERMS):
        first_grad = tl.load(feature_grad, mask=inside, other=0.0).to(tl.float32)
        second_grad = tl.load(feature_grad + H, mask=inside, other=0.0).to(tl.float32)
        feature_grad += 2 * H
        if IS_QUERY:
            factor = tl.load(units + (4 + term) * H + hidden, mask=hidden < H, other=0.0)[None, :]
            input_grad += (2 * term + 1) * factor * (cosine * first_grad - sine * second_grad)
            energy_grad += factor * (sine * first_grad + cosine * second_grad)
        else:
            input_grad += (2 * term + 1) * (cosine * second_grad - sine * first_grad)
        sine, previous_sine = double_cosine * sine - previous_sine, sine
        cosine, previous_cosine = double_cosine * cosine - previous_cosine, cosine
    input_grad *= tl.load(units + 2 * H + hidden, mask=hidden < H, other=0.0)[None, :]
    if IS_QUERY:
        input_grad *= tl.load(units + 3 * H + hidden, mask=hidden < H, other=0.0)[None, :]
    return input_grad, energy_grad


@jit
def input_gradients_kernel(
    feature_grad, x, key_mask, units, norms, dropout, x_grad, energy_grad, first_batch, first_own, chunk, count,
    HAS_KEY_MASK: constexpr, IS_QUERY: constexpr, IS_FIRST: constexpr, TERMS: constexpr, H: constexpr, ROWS: constexpr,
    BLOCK_H: constexpr,
):  # fmt: skip
    """Gradients of queries or keys and of the energy from those of their features.

    IS_FIRST writes the sums, later chunks add to them: their order is fixed, so the result is the same each time.
    """
    local, batch = tl.program_id(2).to(tl.int64), first_batch + tl.program_id(2).to(tl.int64)
    rows = tl.program_id(0) * ROWS + tl.arange(0, ROWS)
    hidden = tl.program_id(1) * BLOCK_H + tl.arange(0, BLOCK_H)
    inside = (rows < chunk)[:, None] & (hidden < H)[None, :]
    start = batch * count + first_own
    angle = unit_angles(
        x + start * H, key_mask + start, units, rows.to(tl.int64), hidden, inside, chunk, HAS_KEY_MASK, IS_QUERY, H
    )
    feature_grad += (local * chunk + rows)[:, None] * (2 * TERMS * H) + hidden[None, :]
    tile, energy_tile = sum_over_terms(angle, feature_grad, units, hidden, inside, IS_QUERY, TERMS, H)
    # dS came scaled to float16's range
    unscale = 1.0 / gradient_scale(norms, dropout)
    out = x_grad + (start + rows)[:, None] * H + hidden[None, :]
    tile = tl.where(inside, tile * (unscale * tl.load(units + (4 + TERMS) * H)), 0.0)
    if not IS_FIRST:
        tile += tl.load(out, mask=inside, other=0.0)
    tl.store(out, tile.to(x_grad.dtype.element_ty), mask=inside)
    if IS_QUERY:
        total = tl.sum(tl.where(inside, energy_tile, 0.0), 0) * unscale
        add_energy_sums(energy_grad, total, hidden, IS_FIRST, H)
