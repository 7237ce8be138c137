"""Triton kernels of Gaussian features: points as a dot product wants them, and back from their gradient."""

from regard.kernels.tiles import constexpr, jit, tl


@jit
def points_of(x, origin, width, rows, column, there, length, WIDTHS: constexpr, D: constexpr):
    """x from its origin, in units of the width, rounded as the product will see it."""
    mask = there[:, None] & (column < D)[None, :]
    at = tl.load(x + rows[:, None] * D + column[None, :], mask=mask, other=0.0).to(tl.float32)
    start = tl.load(origin + (rows // length)[:, None] * D + column[None, :], mask=mask, other=0.0).to(tl.float32)
    if WIDTHS:
        size = tl.load(width + column, mask=column < D, other=0.0).to(tl.float32)[None, :]
    else:
        size = tl.load(width).to(tl.float32)
    return at - start, size


@jit
def features_kernel(
    x, origin, width, out, num_rows, length, limit, floor, IS_KEY: constexpr, WIDTHS: constexpr, D: constexpr,
    S: constexpr, ROWS: constexpr, BLOCK: constexpr,
):  # fmt: skip
    """[y, 1, 1, 0 ..] of a query, [y, -1/2 |y|^2 in two parts, 0 ..] of a key."""
    rows = (tl.program_id(0) * ROWS + tl.arange(0, ROWS)).to(tl.int64)
    column, there = tl.arange(0, BLOCK), rows < num_rows
    off, size = points_of(x, origin, width, rows, column, there, length, WIDTHS, D)
    y = off * size
    # what is not a number stays so
    y = tl.where(y > limit, limit, tl.where(y < -limit, -limit, y)).to(out.dtype.element_ty)
    if IS_KEY:
        wide = y.to(tl.float32)
        half_square = -0.5 * tl.sum(wide * wide, 1)
        # one number of half precision would round it: the second holds what the first lost
        half_square = tl.where(half_square < floor, floor, half_square)
        first = half_square.to(out.dtype.element_ty)
        second = (half_square - first.to(tl.float32)).to(out.dtype.element_ty)
    else:
        first = tl.full([ROWS], 1.0, out.dtype.element_ty)
        second = first
    made = tl.where((column < D)[None, :], y, 0.0)
    made = tl.where((column == D)[None, :], first[:, None], made)
    made = tl.where((column == D + 1)[None, :], second[:, None], made)
    tl.store(out + rows[:, None] * S + column[None, :], made, mask=there[:, None] & (column < S)[None, :])


@jit
def backward_kernel(
    grad, x, origin, width, x_grad, width_grad, num_rows, length, limit, floor, IS_KEY: constexpr, WIDTHS: constexpr,
    D: constexpr, S: constexpr, ROWS: constexpr, BLOCK: constexpr,
):  # fmt: skip
    """The gradient of x, and for each block of rows that of the width."""
    rows = (tl.program_id(0) * ROWS + tl.arange(0, ROWS)).to(tl.int64)
    column, there = tl.arange(0, BLOCK), rows < num_rows
    off, size = points_of(x, origin, width, rows, column, there, length, WIDTHS, D)
    mask = there[:, None] & (column < D)[None, :]
    change = tl.load(grad + rows[:, None] * S + column[None, :], mask=mask, other=0.0).to(tl.float32)
    y = off * size
    if IS_KEY:
        bias = tl.load(grad + rows * S + D, mask=there, other=0.0).to(tl.float32)
        bias = tl.where(-0.5 * tl.sum(y * y, 1) < floor, 0.0, bias)
        change -= bias[:, None] * y
    change = tl.where(tl.abs(y) > limit, 0.0, change)
    tl.store(x_grad + rows[:, None] * D + column[None, :], (change * size).to(x_grad.dtype.element_ty), mask=mask)
    tl.store(width_grad + tl.program_id(0) * D + column, tl.sum(change * off, 0), mask=column < D)
