"""Triton kernels of Gaussian features and of their gradient.

A program handles a tile of points of one row, either queries or keys; the tiles of the queries come first. D is the
size of a point, S the number of its features, ROWS the points of a tile, BLOCK the power of two that holds D.
"""

from regard.kernels.triton_support import constexpr, jit, tl


@jit
def median_of_three(a, b, c):
    """The median of three numbers, elementwise."""
    return tl.maximum(tl.minimum(a, b), tl.minimum(tl.maximum(a, b), c))


@jit
def key_at(keys, column, part: constexpr, num_keys, D: constexpr):
    """The key at part / 18 of the row."""
    return tl.load(keys + (num_keys * part // 18) * D + column, mask=column < D, other=0.0).to(tl.float32)


@jit
def origin_of(keys, column, num_keys, D: constexpr):
    """A robust centre of a row's keys: the median of three medians of three keys.

    It is near the real keys if most of the nine are real, and it needs no sort.
    """
    return median_of_three(
        median_of_three(
            key_at(keys, column, 1, num_keys, D), key_at(keys, column, 7, num_keys, D),
            key_at(keys, column, 13, num_keys, D),
        ),
        median_of_three(
            key_at(keys, column, 3, num_keys, D), key_at(keys, column, 9, num_keys, D),
            key_at(keys, column, 15, num_keys, D),
        ),
        median_of_three(
            key_at(keys, column, 5, num_keys, D), key_at(keys, column, 11, num_keys, D),
            key_at(keys, column, 17, num_keys, D),
        ),
    )  # fmt: skip


@jit
def tile_of(num_queries, num_keys, ROWS: constexpr):
    """This program's row, its tile in the row, and the number of tiles that are queries."""
    query_tiles = tl.cdiv(num_queries, ROWS)
    num_tiles = query_tiles + tl.cdiv(num_keys, ROWS)
    # offsets of long rows exceed 32 bits
    return (tl.program_id(0) // num_tiles).to(tl.int64), tl.program_id(0) % num_tiles, query_tiles


@jit
def load_points(points, keys, width, index, column, mask, num_keys, WIDTHS: constexpr, D: constexpr):
    """Differences from the row's origin, and the width."""
    coordinates = tl.load(points + index[:, None] * D + column[None, :], mask=mask, other=0.0).to(tl.float32)
    if WIDTHS:
        scale = tl.load(width + column, mask=column < D, other=0.0).to(tl.float32)[None, :]
    else:
        scale = tl.load(width).to(tl.float32)
    return tl.where(mask, coordinates - origin_of(keys, column, num_keys, D)[None, :], 0.0), scale


@jit
def write_features(
    points, keys, width, out, index, is_real, num_keys, limit, floor, IS_KEY: constexpr, WIDTHS: constexpr,
    D: constexpr, S: constexpr, BLOCK: constexpr, TAIL: constexpr,
):  # fmt: skip
    """[y, 1, 1, 0 ..] of a query, [y, -1/2 |y|^2 in two parts, 0 ..] of a key."""
    dtype = out.dtype.element_ty
    column, tail_column = tl.arange(0, BLOCK), tl.arange(0, TAIL)
    mask = is_real[:, None] & (column < D)[None, :]
    difference, scale = load_points(points, keys, width, index, column, mask, num_keys, WIDTHS, D)
    y = difference * scale
    # comparisons instead of minimum and maximum, which may replace NaN by a number
    y = tl.where(y > limit, limit, tl.where(y < -limit, -limit, y)).to(dtype)
    tl.store(out + index[:, None] * S + column[None, :], y, mask=mask)
    if IS_KEY:
        # the square of the rounded point: it must cancel against the product of rounded points
        wide = y.to(tl.float32)
        half_square = -0.5 * tl.sum(wide * wide, 1)
        half_square = tl.where(half_square < floor, floor, half_square)
        # one number of half precision would round the bias: the second holds the remainder
        first = half_square.to(dtype)
        second = (half_square - first.to(tl.float32)).to(dtype)
        is_first, is_second = (tail_column == 0)[None, :], (tail_column == 1)[None, :]
        tail = tl.where(is_first, first[:, None], tl.where(is_second, second[:, None], 0.0))
    else:
        tail = tl.where(is_real[:, None] & (tail_column < 2)[None, :], 1.0, 0.0)
    tail_mask = is_real[:, None] & (D + tail_column < S)[None, :]
    tl.store(out + index[:, None] * S + D + tail_column[None, :], tail.to(dtype), mask=tail_mask)


@jit
def features_kernel(
    queries, keys, width, query_out, key_out, num_queries, num_keys, limit, floor, WIDTHS: constexpr, D: constexpr,
    S: constexpr, ROWS: constexpr, BLOCK: constexpr, TAIL: constexpr,
):  # fmt: skip
    """The features of queries and keys."""
    row, tile, query_tiles = tile_of(num_queries, num_keys, ROWS)
    row_keys = keys + row * num_keys * D
    if tile < query_tiles:
        point = tile * ROWS + tl.arange(0, ROWS)
        write_features(
            queries, row_keys, width, query_out, row * num_queries + point, point < num_queries, num_keys, limit, floor,
            False, WIDTHS, D, S, BLOCK, TAIL,
        )  # fmt: skip
    else:
        point = (tile - query_tiles) * ROWS + tl.arange(0, ROWS)
        write_features(
            keys, row_keys, width, key_out, row * num_keys + point, point < num_keys, num_keys, limit, floor,
            True, WIDTHS, D, S, BLOCK, TAIL,
        )  # fmt: skip


@jit
def write_gradient(
    grad, points, keys, width, out, width_grad, index, is_real, num_keys, limit, floor, IS_KEY: constexpr,
    WIDTH_GRAD: constexpr, WIDTHS: constexpr, D: constexpr, S: constexpr, BLOCK: constexpr,
):  # fmt: skip
    """The gradient of a tile of points, and its part of the width's gradient."""
    column = tl.arange(0, BLOCK)
    mask = is_real[:, None] & (column < D)[None, :]
    difference, scale = load_points(points, keys, width, index, column, mask, num_keys, WIDTHS, D)
    y_grad = tl.load(grad + index[:, None] * S + column[None, :], mask=mask, other=0.0).to(tl.float32)
    y = difference * scale
    if IS_KEY:
        # d(-1/2 |y|^2) = -y; a clamped bias is constant
        # a query has 1 at both parts of the bias, so their gradients are equal, and the first is enough
        bias_grad = tl.load(grad + index * S + D, mask=is_real, other=0.0).to(tl.float32)
        bias_grad = tl.where(-0.5 * tl.sum(y * y, 1) < floor, 0.0, bias_grad)
        y_grad -= bias_grad[:, None] * y
    # a clamped coordinate is constant
    y_grad = tl.where(tl.abs(y) > limit, 0.0, y_grad)
    tl.store(out + index[:, None] * D + column[None, :], (y_grad * scale).to(out.dtype.element_ty), mask=mask)
    if WIDTH_GRAD:
        tl.store(width_grad + tl.program_id(0) * D + column, tl.sum(y_grad * difference, 0), mask=column < D)


@jit
def backward_kernel(
    query_grad, key_grad, queries, keys, width, query_out, key_out, width_grad, num_queries, num_keys, limit, floor,
    WIDTH_GRAD: constexpr, WIDTHS: constexpr, D: constexpr, S: constexpr, ROWS: constexpr, BLOCK: constexpr,
):  # fmt: skip
    """The gradients of queries and keys, and from each program a part of the width's."""
    row, tile, query_tiles = tile_of(num_queries, num_keys, ROWS)
    row_keys = keys + row * num_keys * D
    if tile < query_tiles:
        point = tile * ROWS + tl.arange(0, ROWS)
        write_gradient(
            query_grad, queries, row_keys, width, query_out, width_grad, row * num_queries + point, point < num_queries,
            num_keys, limit, floor, False, WIDTH_GRAD, WIDTHS, D, S, BLOCK,
        )  # fmt: skip
    else:
        point = (tile - query_tiles) * ROWS + tl.arange(0, ROWS)
        write_gradient(
            key_grad, keys, row_keys, width, key_out, width_grad, row * num_keys + point, point < num_keys, num_keys,
            limit, floor, True, WIDTH_GRAD, WIDTHS, D, S, BLOCK,
        )  # fmt: skip
