"""Triton kernels of Gaussian features: points as a dot product wants them, and back from their gradient.

A program has some points of one row, queries or keys; queries come first.
"""

from regard.kernels.triton_support import constexpr, jit, tl


@jit
def middle_of_three(a, b, c):
    """The second of three numbers, one by one."""
    return tl.maximum(tl.minimum(a, b), tl.minimum(tl.maximum(a, b), c))


@jit
def key_at(keys, column, part: constexpr, num_keys, D: constexpr):
    """The key a part of the way down, out of 18."""
    return tl.load(keys + (num_keys * part // 18) * D + column, mask=column < D, other=0.0).to(tl.float32)


@jit
def origin_of(keys, column, num_keys, D: constexpr):
    """Where a row's keys lie: of nine, the middle of the middles of three, near the real ones if most of them are."""
    return middle_of_three(
        middle_of_three(
            key_at(keys, column, 1, num_keys, D), key_at(keys, column, 7, num_keys, D),
            key_at(keys, column, 13, num_keys, D),
        ),
        middle_of_three(
            key_at(keys, column, 3, num_keys, D), key_at(keys, column, 9, num_keys, D),
            key_at(keys, column, 15, num_keys, D),
        ),
        middle_of_three(
            key_at(keys, column, 5, num_keys, D), key_at(keys, column, 11, num_keys, D),
            key_at(keys, column, 17, num_keys, D),
        ),
    )  # fmt: skip


@jit
def place_of(num_queries, num_keys, ROWS: constexpr):
    """This program's row, its block of points in it, and how many of the blocks are queries."""
    query_blocks = tl.cdiv(num_queries, ROWS)
    blocks = query_blocks + tl.cdiv(num_keys, ROWS)
    return (tl.program_id(0) // blocks).to(tl.int64), tl.program_id(0) % blocks, query_blocks


@jit
def points_of(x, keys, width, places, column, mask, num_keys, WIDTHS: constexpr, D: constexpr):
    """Points from their row's origin, and the width they are measured by."""
    at = tl.load(x + places[:, None] * D + column[None, :], mask=mask, other=0.0).to(tl.float32)
    if WIDTHS:
        size = tl.load(width + column, mask=column < D, other=0.0).to(tl.float32)[None, :]
    else:
        size = tl.load(width).to(tl.float32)
    return tl.where(mask, at - origin_of(keys, column, num_keys, D)[None, :], 0.0), size


@jit
def make_features(
    x, keys, width, out, places, there, num_keys, limit, floor, IS_KEY: constexpr, WIDTHS: constexpr, D: constexpr,
    S: constexpr, BLOCK: constexpr, REST: constexpr,
):  # fmt: skip
    """[y, 1, 1, 0 ..] of a query, [y, -1/2 |y|^2 in two parts, 0 ..] of a key."""
    dtype = out.dtype.element_ty
    column, rest = tl.arange(0, BLOCK), tl.arange(0, REST)
    mask = there[:, None] & (column < D)[None, :]
    off, size = points_of(x, keys, width, places, column, mask, num_keys, WIDTHS, D)
    y = off * size
    # what is not a number stays so
    y = tl.where(y > limit, limit, tl.where(y < -limit, -limit, y)).to(dtype)
    tl.store(out + places[:, None] * S + column[None, :], y, mask=mask)
    if IS_KEY:
        wide = y.to(tl.float32)
        half_square = -0.5 * tl.sum(wide * wide, 1)
        # one number of half precision would round it: the second holds what the first lost
        half_square = tl.where(half_square < floor, floor, half_square)
        first = half_square.to(dtype)
        second = (half_square - first.to(tl.float32)).to(dtype)
        tail = tl.where((rest == 0)[None, :], first[:, None], tl.where((rest == 1)[None, :], second[:, None], 0.0))
    else:
        tail = tl.where(there[:, None] & (rest < 2)[None, :], 1.0, 0.0)
    tail_mask = there[:, None] & (D + rest < S)[None, :]
    tl.store(out + places[:, None] * S + D + rest[None, :], tail.to(dtype), mask=tail_mask)


@jit
def features_kernel(
    queries, keys, width, query_out, key_out, num_queries, num_keys, limit, floor, WIDTHS: constexpr, D: constexpr,
    S: constexpr, ROWS: constexpr, BLOCK: constexpr, REST: constexpr,
):  # fmt: skip
    """The features of both sides."""
    row, block, query_blocks = place_of(num_queries, num_keys, ROWS)
    its_keys = keys + row * num_keys * D
    if block < query_blocks:
        point = block * ROWS + tl.arange(0, ROWS)
        make_features(
            queries, its_keys, width, query_out, row * num_queries + point, point < num_queries, num_keys, limit, floor,
            False, WIDTHS, D, S, BLOCK, REST,
        )  # fmt: skip
    else:
        point = (block - query_blocks) * ROWS + tl.arange(0, ROWS)
        make_features(
            keys, its_keys, width, key_out, row * num_keys + point, point < num_keys, num_keys, limit, floor,
            True, WIDTHS, D, S, BLOCK, REST,
        )  # fmt: skip


@jit
def make_gradient(
    grad, x, keys, width, out, width_grad, places, there, num_keys, limit, floor, IS_KEY: constexpr,
    WIDTH_GRAD: constexpr, WIDTHS: constexpr, D: constexpr, S: constexpr, BLOCK: constexpr,
):  # fmt: skip
    """The gradient of these points, and what they say of the width's."""
    column = tl.arange(0, BLOCK)
    mask = there[:, None] & (column < D)[None, :]
    off, size = points_of(x, keys, width, places, column, mask, num_keys, WIDTHS, D)
    change = tl.load(grad + places[:, None] * S + column[None, :], mask=mask, other=0.0).to(tl.float32)
    y = off * size
    if IS_KEY:
        bias = tl.load(grad + places * S + D, mask=there, other=0.0).to(tl.float32)
        bias = tl.where(-0.5 * tl.sum(y * y, 1) < floor, 0.0, bias)
        change -= bias[:, None] * y
    change = tl.where(tl.abs(y) > limit, 0.0, change)
    tl.store(out + places[:, None] * D + column[None, :], (change * size).to(out.dtype.element_ty), mask=mask)
    if WIDTH_GRAD:
        tl.store(width_grad + tl.program_id(0) * D + column, tl.sum(change * off, 0), mask=column < D)


@jit
def backward_kernel(
    query_grad, key_grad, queries, keys, width, query_out, key_out, width_grad, num_queries, num_keys, limit, floor,
    WIDTH_GRAD: constexpr, WIDTHS: constexpr, D: constexpr, S: constexpr, ROWS: constexpr, BLOCK: constexpr,
):  # fmt: skip
    """The gradients of both sides, and from each program that of the width."""
    row, block, query_blocks = place_of(num_queries, num_keys, ROWS)
    its_keys = keys + row * num_keys * D
    if block < query_blocks:
        point = block * ROWS + tl.arange(0, ROWS)
        make_gradient(
            query_grad, queries, its_keys, width, query_out, width_grad, row * num_queries + point, point < num_queries,
            num_keys, limit, floor, False, WIDTH_GRAD, WIDTHS, D, S, BLOCK,
        )  # fmt: skip
    else:
        point = (block - query_blocks) * ROWS + tl.arange(0, ROWS)
        make_gradient(
            key_grad, keys, its_keys, width, key_out, width_grad, row * num_keys + point, point < num_keys, num_keys,
            limit, floor, True, WIDTH_GRAD, WIDTHS, D, S, BLOCK,
        )  # fmt: skip
