"""Triton pieces that several additive kernels share."""

from regard.kernels.tiles import INTERPRETED, LOG2_E, constexpr, jit, tl


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
