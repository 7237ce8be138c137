"""Triton kernels that look at every hidden unit's range, so that the device itself chooses what serves it.

`units` holds, each a row of H: middle; reach, 2 where all exponentials are small numbers, 1 where they are numbers at
all and 0 beyond; frequency, 0 where the unit stands apart; weight; then c_1 .. c_R. After them comes the energy's size,
by which the weights were divided. `apart` lists the units whose range the path cannot serve, their number first.
"""

from regard.kernels.tiles import constexpr, jit, tl


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
