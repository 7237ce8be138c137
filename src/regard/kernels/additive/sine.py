"""Additive attention on tensor cores: a sum of sines is a dot product of sines and cosines.

    v . tanh(q + k) ~ sum_h v_h sum_r c_r sin((2r - 1) w_h (q_h + k_h)) = features(q) . features(k)

since sin(a + b) = sin a cos b + cos a sin b. Scores and all gradients are matrix products of 2 R H features. These are
in float16 whatever the inputs: sines lie within 1, where it has eight times bfloat16's digits. Units whose range is too
wide for a series are added pair by pair, on the device.
"""

import torch
from torch import Tensor

from regard.kernels.additive.chunked import Chunk, Gradients, Walk, wide_product
from regard.kernels.additive.reference import Rows
from regard.kernels.additive.sine_triton import features_kernel, fold_kernel
from regard.kernels.additive.unit_ranges import TERMS, pointer
from regard.kernels.triton_support import launch, power_of_two

FEATURE_ROWS, BLOCK_H = 8, 128
MOST_FEATURES = 2**27
"""Numbers that a chunk's features may be: 256 MiB."""


class SineWalk(Walk):
    """Features are made for a chunk at a time, and kept while the next chunk needs them too."""

    is_sine = True
    fold_rows = 8

    def __init__(self, rows: Rows) -> None:
        super().__init__(rows)
        self.made: dict[bool, tuple[tuple[slice, slice], Tensor]] = {}

    def most_rows(self) -> int:
        """So many that their features stay within bounds."""
        (_, num_queries, size), num_keys = self.rows.queries.shape, self.rows.keys.shape[1]
        return min(super().most_rows(), MOST_FEATURES // ((num_queries + num_keys) * 2 * TERMS * size))

    def features(self, chunk: Chunk, *, is_query: bool) -> Tensor:
        """Those of a chunk's queries, or of its keys, which are made for the whole row at once."""
        x = self.rows.queries if is_query else self.rows.keys
        part = (chunk.rows, chunk.queries if is_query else slice(0, x.shape[1]))
        if is_query not in self.made or self.made[is_query][0] != part:
            # the old ones go before the new ones are made
            self.made.pop(is_query, None)
            self.made[is_query] = (part, self._make(x, part, is_query=is_query))
        found = self.made[is_query][1]
        return found if is_query else found[:, chunk.keys]

    def _make(self, x: Tensor, part: tuple[slice, slice], *, is_query: bool) -> Tensor:
        given, size = x[part], x.shape[2]
        real = None if is_query or self.rows.real is None else self.rows.real[part[0]]
        made = x.new_empty(*given.shape[:2], 2 * TERMS * size, dtype=torch.float16)
        num_rows, wide = given.shape[0] * given.shape[1], min(power_of_two(size), BLOCK_H)
        launch(
            features_kernel,
            (-(-num_rows // FEATURE_ROWS), -(-size // wide), 1),
            (given, pointer(real, x), self.units, made, num_rows),
            {"REAL": real is not None, "IS_QUERY": is_query, "TERMS": TERMS, "H": size, "ROWS": FEATURE_ROWS,
             "BLOCK_H": wide},
            kind=(self.kind, is_query, num_rows, given.data_ptr() % 16, pointer(real, x).data_ptr() % 16),
        )  # fmt: skip
        return made

    def scores(self, chunk: Chunk) -> Tensor:
        """The product of features, in half precision too."""
        return self.features(chunk, is_query=True) @ self.features(chunk, is_query=False).mT

    def fold(self, chunk: Chunk, score_grad: Tensor, into: Gradients) -> None:
        """The features' gradients are products again; from there it is a sum over the terms."""
        # a query's share of dS is bounded by its scale; a key may gather that of all queries, beyond half precision
        self._fold_side(chunk, score_grad @ self.features(chunk, is_query=False), into, is_query=True)
        self._fold_side(chunk, wide_product(score_grad.mT, self.features(chunk, is_query=True)), into, is_query=False)

    def _fold_side(self, chunk: Chunk, feature_grad: Tensor, into: Gradients, *, is_query: bool) -> None:
        rows = self.rows
        x, total = (rows.queries, into.queries) if is_query else (rows.keys, into.keys)
        mine, theirs = (chunk.queries, chunk.keys) if is_query else (chunk.keys, chunk.queries)
        length, real = mine.stop - mine.start, None if is_query else rows.real
        wide, is_first = min(power_of_two(x.shape[2]), BLOCK_H), theirs.start == 0
        launch(
            fold_kernel,
            (-(-length // self.fold_rows), -(-x.shape[2] // wide), chunk.sizes[0]),
            (
                feature_grad, x, pointer(real, x), self.units, into.largest, rows.dropout, total,
                into.energy(chunk), chunk.rows.start, mine.start, length, x.shape[1],
            ),
            {"REAL": real is not None, "IS_QUERY": is_query, "IS_FIRST": is_first, "TERMS": TERMS, "H": x.shape[2],
             "ROWS": self.fold_rows, "BLOCK_H": wide},
            kind=(self.kind, is_query, is_first, length, total.dtype),
        )  # fmt: skip
