"""Additive attention on tensor cores: a sum of sines is a dot product of sines and cosines.

    v . tanh(q + k) ~ sum_h v_h sum_r c_r sin((2r - 1) w_h (q_h + k_h)) = features(q) . features(k)

since sin(a + b) = sin a cos b + cos a sin b. Scores and all gradients are matrix products of 2 R H features. The
features are float16 whatever the inputs: sines are at most 1, where float16 has eight times bfloat16's precision.
Outlier units, whose range is too wide for a series, are added pair by pair on the device.
"""

import torch
from torch import Tensor

from regard.kernels.additive.chunked import Chunk, ChunkedAttention, GradientSums, wide_product
from regard.kernels.additive.reference import FlatRequest
from regard.kernels.additive.sine_triton import features_kernel, input_gradients_kernel
from regard.kernels.additive.unit_ranges import TERMS, replace_none
from regard.kernels.triton_support import launch, power_of_two

FEATURE_ROWS, BLOCK_H = 8, 128
MAX_FEATURES = 2**27
"""Features of a chunk at most: 256 MiB."""


class SineAttention(ChunkedAttention):
    """Chunked attention from features, which are computed for a chunk and reused while the next chunk shares them."""

    is_sine = True
    energy_block = 8

    def __init__(self, request: FlatRequest) -> None:
        super().__init__(request)
        self.cache: dict[bool, tuple[tuple[slice, slice], Tensor]] = {}

    def max_batch(self) -> int:
        """As many batch elements as MAX_FEATURES allows."""
        (_, num_queries, size), num_keys = self.request.queries.shape, self.request.keys.shape[1]
        return min(super().max_batch(), MAX_FEATURES // ((num_queries + num_keys) * 2 * TERMS * size))

    def features(self, chunk: Chunk, *, is_query: bool) -> Tensor:
        """Features of a chunk's queries, or of its keys; those of all keys are computed at once."""
        x = self.request.queries if is_query else self.request.keys
        part = (chunk.batch, chunk.queries if is_query else slice(0, x.shape[1]))
        if is_query not in self.cache or self.cache[is_query][0] != part:
            # free the old features first, so that both are never in memory together
            self.cache.pop(is_query, None)
            self.cache[is_query] = (part, self._compute_features(x, part, is_query=is_query))
        features = self.cache[is_query][1]
        return features if is_query else features[:, chunk.keys]

    def _compute_features(self, x: Tensor, part: tuple[slice, slice], *, is_query: bool) -> Tensor:
        chunk_x, size = x[part], x.shape[2]
        key_mask = None if is_query or self.request.key_mask is None else self.request.key_mask[part[0]]
        features = x.new_empty(*chunk_x.shape[:2], 2 * TERMS * size, dtype=torch.float16)
        num_rows, block = chunk_x.shape[0] * chunk_x.shape[1], min(power_of_two(size), BLOCK_H)
        mask_argument = replace_none(key_mask, x)
        launch(
            features_kernel,
            (-(-num_rows // FEATURE_ROWS), -(-size // block), 1),
            (chunk_x, mask_argument, self.units, features, num_rows),
            {"HAS_KEY_MASK": key_mask is not None, "IS_QUERY": is_query, "TERMS": TERMS, "H": size,
             "ROWS": FEATURE_ROWS, "BLOCK_H": block},
            # slices may begin anywhere, and Triton compiles for the alignment of pointers
            kind=(self.kind, is_query, num_rows, chunk_x.data_ptr() % 16, mask_argument.data_ptr() % 16),
        )  # fmt: skip
        return features

    def scores(self, chunk: Chunk) -> Tensor:
        """The product of the features; tensor cores sum in float32 and round the result to float16."""
        return self.features(chunk, is_query=True) @ self.features(chunk, is_query=False).mT

    def add_input_gradients(self, chunk: Chunk, score_grad: Tensor, sums: GradientSums) -> None:
        """The gradients of the features are products as well; those of the inputs are sums over the terms."""
        self._add_side(chunk, score_grad @ self.features(chunk, is_query=False), sums, is_query=True)
        # a query's sum of |dS| is bounded by the gradient's scale, so float16 holds its product; a key may sum over all
        # queries, which float16 cannot hold
        key_feature_grad = wide_product(score_grad.mT, self.features(chunk, is_query=True))
        self._add_side(chunk, key_feature_grad, sums, is_query=False)

    def _add_side(self, chunk: Chunk, feature_grad: Tensor, sums: GradientSums, *, is_query: bool) -> None:
        request = self.request
        x, total = (request.queries, sums.queries) if is_query else (request.keys, sums.keys)
        own, other = (chunk.queries, chunk.keys) if is_query else (chunk.keys, chunk.queries)
        length, key_mask = own.stop - own.start, None if is_query else request.key_mask
        block, is_first = min(power_of_two(x.shape[2]), BLOCK_H), other.start == 0
        launch(
            input_gradients_kernel,
            (-(-length // self.energy_block), -(-x.shape[2] // block), chunk.sizes[0]),
            (
                feature_grad, x, replace_none(key_mask, x), self.units, sums.norms, request.dropout, total,
                sums.energy(chunk), chunk.batch.start, own.start, length, x.shape[1],
            ),
            {"HAS_KEY_MASK": key_mask is not None, "IS_QUERY": is_query, "IS_FIRST": is_first, "TERMS": TERMS,
             "H": x.shape[2], "ROWS": self.energy_block, "BLOCK_H": block},
            kind=(self.kind, is_query, is_first, length, total.dtype),
        )  # fmt: skip
