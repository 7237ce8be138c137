"""Additive attention in full precision: exponentials of queries and keys, one division for two hidden units.

    tanh(a + b) = (E_a X_b + X_a) / (E_a E_b + 1),   E = e^(2x),   X = e^(2x) - 1

A pair costs a few multiplications and half a division instead of a tanh, and loses no digits for small arguments.
Units are measured from their middle; outlier units, whose exponentials could still overflow, are added pair by pair.
"""

import torch
from torch import Tensor

from regard.kernels.additive.chunked import Chunk, ChunkedAttention, GradientSums
from regard.kernels.additive.exact_triton import exponentials_kernel, gradients_kernel, scores_kernel
from regard.kernels.additive.reference import FlatRequest
from regard.kernels.additive.unit_ranges import TERMS, replace_none
from regard.kernels.triton_support import launch, power_of_two

PADDING = 128
"""The length of exponentials is a multiple of this, and the side of every tile a divisor of it."""
ROWS, BLOCK_H, UNITS = 32, 32, 4
# small tiles: each pair keeps two numerators and denominators in registers
TILE_Q, TILE_K, TILE_OTHER = 32, 64, 64


class ExactAttention(ChunkedAttention):
    """Chunked attention from exponentials, which are computed once for each side."""

    is_sine = False
    energy_block = 64

    def __init__(self, request: FlatRequest) -> None:
        super().__init__(request)
        self.queries = self._exponentials(self.request.queries, None, is_query=True)
        self.keys = self._exponentials(self.request.keys, self.request.key_mask, is_query=False)

    def _exponentials(self, x: Tensor, key_mask: Tensor | None, *, is_query: bool) -> Tensor:
        batch_size, length, size = x.shape
        # one PADDING more than the length: a chunk may begin anywhere, and its last tile extends past its end
        # a multiple of UNITS, the hidden units of one program, which share divisions in pairs
        even, padded = -(-size // UNITS) * UNITS, (-(-length // PADDING) + 1) * PADDING
        exponentials = x.new_empty(batch_size, 4 if is_query else 2, even, padded, dtype=torch.float32)
        block = min(power_of_two(even), BLOCK_H)
        launch(
            exponentials_kernel,
            (batch_size, padded // ROWS, -(-even // block)),
            (x, replace_none(key_mask, x), self.units, exponentials, length, padded),
            {"HAS_KEY_MASK": key_mask is not None, "IS_QUERY": is_query, "H": size, "EVEN_H": even, "ROWS": ROWS,
             "BLOCK_H": block},
            kind=(self.kind, is_query),
        )  # fmt: skip
        return exponentials

    def scores(self, chunk: Chunk) -> Tensor:
        """All scores of the chunk, tile by tile."""
        count, queries, keys = chunk.sizes
        scores = self.queries.new_empty(count, queries, keys)
        launch(
            scores_kernel,
            (-(-queries // TILE_Q), -(-keys // TILE_K), count),
            (
                self.queries, self.keys, scores, chunk.batch.start, chunk.queries.start, chunk.keys.start, queries,
                keys, self.queries.shape[3], self.keys.shape[3],
            ),
            {"EVEN_H": self.queries.shape[2], "BLOCK_Q": TILE_Q, "BLOCK_K": TILE_K},
            kind=(self.kind, chunk.sizes),
            num_warps=2,
        )  # fmt: skip
        return scores

    def add_input_gradients(self, chunk: Chunk, score_grad: Tensor, sums: GradientSums) -> None:
        """One launch per side; a program takes UNITS hidden units."""
        count, _, keys = chunk.sizes
        # the keys' launch reads the same score gradient transposed, by its strides
        sides = (
            (True, self.queries, self.keys, chunk.queries, chunk.keys, sums.queries, (keys, 1)),
            (False, self.keys, self.queries, chunk.keys, chunk.queries, sums.keys, (1, keys)),
        )
        for is_query, own, other, own_part, other_part, total, strides in sides:
            lengths = (own_part.stop - own_part.start, other_part.stop - other_part.start)
            is_first = other_part.start == 0
            launch(
                gradients_kernel,
                (-(-lengths[0] // self.energy_block), own.shape[2] // UNITS, count),
                (
                    own, other, self.units, score_grad, total, sums.energy(chunk), chunk.batch.start,
                    own_part.start, other_part.start, *lengths, total.shape[1], own.shape[3], other.shape[3], *strides,
                ),
                {"IS_QUERY": is_query, "IS_FIRST": is_first, "TERMS": TERMS, "H": self.request.energy.shape[0],
                 "EVEN_H": own.shape[2], "UNITS": UNITS, "BLOCK": self.energy_block, "BLOCK_OTHER": TILE_OTHER},
                kind=(self.kind, chunk.sizes, is_query, is_first, total.dtype),
            )  # fmt: skip
