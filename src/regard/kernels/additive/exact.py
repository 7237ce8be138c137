"""Additive attention in full precision: exponentials of queries and keys, one division for two hidden units.

    tanh(a + b) = (E_a X_b + X_a) / (E_a E_b + 1),   E = e^(2x),   X = e^(2x) - 1

Pairs cost a few multiplications and half a division instead of a tanh, and lose no digits for small arguments. Units
are counted from their middle; those whose exponentials could still overflow are added one by one, on the device.
"""

import torch
from torch import Tensor

from regard.kernels.additive.chunked import Chunk, Gradients, Walk
from regard.kernels.additive.exact_triton import exponentials_kernel, gradients_kernel, scores_kernel
from regard.kernels.additive.reference import Rows
from regard.kernels.additive.unit_ranges import TERMS, pointer
from regard.kernels.triton_support import launch, power_of_two

PADDING = 128
"""What the length of exponentials is a multiple of, and every tile's side a divisor."""
ROWS, BLOCK_H, UNITS = 32, 32, 4
TILE_Q, TILE_K, TILE_OTHER = 32, 64, 64


class ExactWalk(Walk):
    """Exponentials are made once for each side."""

    is_sine = False
    fold_rows = 64

    def __init__(self, rows: Rows) -> None:
        super().__init__(rows)
        self.queries = self._exponentials(self.rows.queries, None, is_query=True)
        self.keys = self._exponentials(self.rows.keys, self.rows.real, is_query=False)

    def _exponentials(self, x: Tensor, real: Tensor | None, *, is_query: bool) -> Tensor:
        num_rows, length, size = x.shape
        # a chunk may begin anywhere, and its last tile reaches past its end
        even, padded = -(-size // UNITS) * UNITS, (-(-length // PADDING) + 1) * PADDING
        made = x.new_empty(num_rows, 4 if is_query else 2, even, padded, dtype=torch.float32)
        wide = min(power_of_two(even), BLOCK_H)
        launch(
            exponentials_kernel,
            (num_rows, padded // ROWS, -(-even // wide)),
            (x, pointer(real, x), self.units, made, length, padded),
            {"REAL": real is not None, "IS_QUERY": is_query, "H": size, "EVEN_H": even, "ROWS": ROWS, "BLOCK_H": wide},
            kind=(self.kind, is_query),
        )
        return made

    def scores(self, chunk: Chunk) -> Tensor:
        """All of them, tile by tile."""
        count, queries, keys = chunk.sizes
        found = self.queries.new_empty(count, queries, keys)
        launch(
            scores_kernel,
            (-(-queries // TILE_Q), -(-keys // TILE_K), count),
            (
                self.queries, self.keys, found, chunk.rows.start, chunk.queries.start, chunk.keys.start, queries, keys,
                self.queries.shape[3], self.keys.shape[3],
            ),
            {"EVEN_H": self.queries.shape[2], "BLOCK_Q": TILE_Q, "BLOCK_K": TILE_K},
            kind=(self.kind, chunk.sizes),
            num_warps=2,
        )  # fmt: skip
        return found

    def fold(self, chunk: Chunk, score_grad: Tensor, into: Gradients) -> None:
        """A few hidden units a program, for each side."""
        count, _, keys = chunk.sizes
        sides = (
            (True, self.queries, self.keys, chunk.queries, chunk.keys, into.queries, (keys, 1)),
            (False, self.keys, self.queries, chunk.keys, chunk.queries, into.keys, (1, keys)),
        )
        for is_query, mine, theirs, part, other, total, steps in sides:
            lengths, is_first = (part.stop - part.start, other.stop - other.start), other.start == 0
            launch(
                gradients_kernel,
                (-(-lengths[0] // self.fold_rows), mine.shape[2] // UNITS, count),
                (
                    mine, theirs, self.units, score_grad, total, into.energy(chunk), chunk.rows.start,
                    part.start, other.start, *lengths, total.shape[1], mine.shape[3], theirs.shape[3], *steps,
                ),
                {"IS_QUERY": is_query, "IS_FIRST": is_first, "TERMS": TERMS, "H": self.rows.energy.shape[0],
                 "EVEN_H": mine.shape[2], "UNITS": UNITS, "BLOCK": self.fold_rows, "BLOCK_OTHER": TILE_OTHER},
                kind=(self.kind, chunk.sizes, is_query, is_first, total.dtype),
            )  # fmt: skip
