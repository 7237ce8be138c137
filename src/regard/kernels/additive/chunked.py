"""Additive attention on CUDA, one chunk of scores at a time: the loop that the sine path and the exact path share.

    forward    scores of a chunk -> softmax and values, with a running log-sum-exp over chunks of keys
    backward   the same scores again -> their gradient dS = P (dP - delta) -> gradients of queries, keys and energy

Chunks have bounded size, so memory grows with the lengths alone. A subclass of `ChunkedAttention` forms scores and
takes their gradient back to its inputs. Every sum has a fixed order, so results are the same each time.
"""

from abc import ABC, abstractmethod
from collections.abc import Iterator
from dataclasses import dataclass
from typing import Any

import torch
from torch import Tensor

from regard.kernels.additive.exact_triton import outlier_gradients_kernel, outlier_scores_kernel
from regard.kernels.additive.reference import FlatRequest
from regard.kernels.additive.shared_triton import delta_kernel, gradient_kernel, softmax_kernel
from regard.kernels.additive.unit_ranges import (
    TERMS,
    fit_units,
    intern_kind,
    prepare_request,
    replace_none,
    request_kind,
)
from regard.kernels.triton_support import launch, power_of_two, tile_size

CHUNK_SCORES = 2**25
"""Scores formed at a time: 64 MiB in half precision."""
MAX_GRID = 2**16 - 1
"""CUDA's limit for the second and third axis of a launch."""
MAX_QUERIES, MAX_KEYS = 4096, 8192
"""Chunk of a long sequence: the scores of one query have to fit into the registers of one program."""
DELTA_ROWS, SQUARE_TILE = 16, 64
MIN_SOFTMAX_TILE = 2048
"""Scores that one program of the softmax holds at least: several queries if they have few keys."""


@dataclass(frozen=True)
class Chunk:
    """Batch elements, queries and keys whose scores are formed together."""

    batch: slice
    queries: slice
    keys: slice

    @property
    def sizes(self) -> tuple[int, int, int]:
        """The numbers of batch elements, queries and keys."""
        batch, queries, keys = (part.stop - part.start for part in (self.batch, self.queries, self.keys))
        return batch, queries, keys


def split_into_chunks(batch_size: int, num_queries: int, num_keys: int, max_batch: int) -> Iterator[Chunk]:
    """All pairs, in chunks: several batch elements at once where they are short, part of one where it is long."""
    keys = min(num_keys, MAX_KEYS)
    # at least one query, however many keys
    queries = min(num_queries, max(CHUNK_SCORES // keys, 1))
    if num_queries * num_keys > CHUNK_SCORES:
        queries = min(queries, MAX_QUERIES)
    batch = 1
    if (queries, keys) == (num_queries, num_keys):
        batch = max(min(CHUNK_SCORES // (queries * keys), max_batch), 1)
    # keys innermost, so that the running softmax of a block of queries is finished before the next block
    for first_batch in range(0, batch_size, batch):
        for query in range(0, num_queries, queries):
            for key in range(0, num_keys, keys):
                yield Chunk(
                    slice(first_batch, min(first_batch + batch, batch_size)),
                    slice(query, min(query + queries, num_queries)),
                    slice(key, min(key + keys, num_keys)),
                )


class GradientSums:
    """Gradients summed over the chunks of a backward pass: each part is written by its first chunk, then added to.

    `norms` bounds the gradient of a score, see `gradient_scale`; `energy_block` is the number of queries that share one
    partial sum of the energy's gradient.
    """

    def __init__(self, request: FlatRequest, chunks: list[Chunk], norms: Tensor, energy_block: int) -> None:
        self.request, self.norms, self.energy_block = request, norms, energy_block
        sides = (request.queries, request.keys, request.values)
        lengths = (request.queries.shape[1], request.keys.shape[1])
        # one chunk per batch element writes each gradient once; sums over several chunks need float32
        is_single = all(chunk.sizes[1:] == lengths for chunk in chunks)
        self.queries, self.keys, self.values = (
            torch.empty_like(side, dtype=side.dtype if is_single else torch.float32) for side in sides
        )
        self.energies: dict[tuple[int, int], Tensor] = {}

    def energy(self, chunk: Chunk) -> Tensor:
        """Partial sums of the energy's gradient, one for each `energy_block` queries of the chunk."""
        position = (chunk.batch.start, chunk.queries.start)
        # a later chunk of keys adds to the sums of the same queries
        if position not in self.energies:
            blocks = -(-chunk.sizes[1] // self.energy_block) * chunk.sizes[0]
            size = self.request.energy.shape[0]
            self.energies[position] = self.queries.new_empty(blocks, size, dtype=torch.float32)
        return self.energies[position]

    def add_values(self, chunk: Chunk, weights: Tensor, grad: Tensor) -> None:
        """Add weights^T grad."""
        total = self.values[chunk.batch, chunk.keys]
        # the first chunk of queries writes the total, so that it need not be zeroed
        if chunk.queries.start == 0 and total.dtype == weights.dtype:
            torch.bmm(weights.mT, grad.to(weights.dtype), out=total)
        elif chunk.queries.start == 0:
            total.copy_(wide_product(weights.mT, grad.to(weights.dtype)))
        else:
            total.add_(wide_product(weights.mT, grad.to(weights.dtype)))

    def finish(self) -> tuple[Tensor, Tensor, Tensor, Tensor]:
        """Gradients of queries, keys, energy and values in the precision of the inputs."""
        request = self.request
        partial = list(self.energies.values())
        # a sum of partial sums in float32: its order does not depend on the scheduling of programs
        energy = (torch.cat(partial) if len(partial) > 1 else partial[0]).sum(0)
        grads = (self.queries, self.keys, energy, self.values)
        sides = (request.queries, request.keys, request.energy, request.values)
        queries, keys, energy, values = (grad.to(side.dtype) for grad, side in zip(grads, sides, strict=True))
        return queries, keys, energy, values


def wide_product(left: Tensor, right: Tensor) -> Tensor:
    """left @ right with a result in float32."""
    if left.device.type == "cuda" and left.dtype.itemsize == 2:
        # tensor cores sum in float32 anyway; this keeps the sum
        return torch.bmm(left, right, out_dtype=torch.float32)
    return left.float() @ right.float()


class ChunkedAttention(ABC):
    """Forward and backward pass over chunks; a subclass forms scores and differentiates them."""

    is_sine: bool
    energy_block: int
    """Queries that share one partial sum of the energy's gradient."""

    def __init__(self, request: FlatRequest) -> None:
        self.request = request = prepare_request(request)
        # everything that the launches below compile for
        self.kind = intern_kind((self.is_sine, request_kind(request)))
        self.units, self.outliers = fit_units(request, self.kind, is_sine=self.is_sine)
        placeholder = self.outliers
        # the arguments that follow the scores in the softmax and gradient kernels
        self.mask_arguments = (
            self.units, replace_none(request.low, placeholder), replace_none(request.high, placeholder),
            replace_none(request.key_mask, placeholder), replace_none(request.pair_mask, placeholder),
            replace_none(request.seed, placeholder), request.dropout,
        )  # fmt: skip
        self.constants: dict[str, Any] = {
            "HAS_LOW": request.low is not None,
            "HAS_HIGH": request.high is not None,
            "HAS_KEY_MASK": request.key_mask is not None,
            "PAIR_MASKS": 0 if request.pair_mask is None else 1 if request.pair_mask.shape[0] == 1 else 2,
            "HAS_DROPOUT": request.dropout > 0,
            "TERMS": TERMS,
            "H": request.energy.shape[0],
        }

    @abstractmethod
    def scores(self, chunk: Chunk) -> Tensor:
        """A chunk's scores, without the energy's scale and the outlier units."""

    @abstractmethod
    def add_input_gradients(self, chunk: Chunk, score_grad: Tensor, sums: GradientSums) -> None:
        """Add the gradients of queries, keys and energy that follow from a chunk's score gradient."""

    def max_batch(self) -> int:
        """The largest number of batch elements in a chunk."""
        return MAX_GRID

    def forward(self) -> tuple[Tensor, Tensor]:
        """Context and log-sum-exp."""
        request = self.request
        (batch_size, num_queries, _), (_, num_keys, value_size) = request.queries.shape, request.values.shape
        context = request.values.new_empty(batch_size, num_queries, value_size)
        lse = context.new_empty(batch_size, num_queries, dtype=torch.float32)
        running: tuple[Tensor, Tensor] | None = None
        for chunk in split_into_chunks(batch_size, num_queries, num_keys, self.max_batch()):
            values, is_first = request.values[chunk.batch, chunk.keys], chunk.keys.start == 0
            chunk_lse = lse[chunk.batch, chunk.queries]
            if is_first and chunk.keys.stop == num_keys:
                # all keys in one chunk: write the product into the context, without a copy
                torch.bmm(self._weights(chunk, chunk_lse), values, out=context[chunk.batch, chunk.queries])
                continue
            # the softmax writes chunk_lse, which the next chunk of keys overwrites: keep a copy
            part = wide_product(self._weights(chunk, chunk_lse), values), chunk_lse.clone()
            running = part if is_first or running is None else merge_contexts(*running, *part)
            if chunk.keys.stop == num_keys:
                context[chunk.batch, chunk.queries], lse[chunk.batch, chunk.queries] = running
        return context, lse

    def _scores_with_outliers(self, chunk: Chunk) -> Tensor:
        """A chunk's scores, still without the energy's scale."""
        scores, (count, queries, keys) = self.scores(chunk), chunk.sizes
        launch(
            outlier_scores_kernel,
            (-(-queries // SQUARE_TILE), -(-keys // SQUARE_TILE), count),
            (self.request.queries, self.request.keys, self.units, self.outliers, scores, *self._chunk_arguments(chunk)),
            {"H": self.request.energy.shape[0], "BLOCK": SQUARE_TILE},
            kind=(self.kind, chunk.sizes, scores.dtype),
        )
        return scores

    def _weights(self, chunk: Chunk, lse: Tensor) -> Tensor:
        """Softmax of a chunk's scores, which it overwrites where the types have one size; fills `lse`."""
        scores, values = self._scores_with_outliers(chunk), self.request.values
        count, queries, keys = chunk.sizes
        in_place = scores.dtype.itemsize == values.dtype.itemsize
        # float16 scores and bfloat16 weights share memory: a program loads its queries before it writes them
        weights = scores.view(values.dtype) if in_place else torch.empty_like(scores, dtype=values.dtype)
        # Triton's tiles have powers of two as sides
        block = power_of_two(keys)
        rows = max(1, MIN_SOFTMAX_TILE // block)
        launch(
            softmax_kernel,
            (-(-queries // rows), count, 1),
            (scores, *self.mask_arguments, weights, lse, *self._chunk_arguments(chunk)),
            self.constants | {"ROWS": rows, "BLOCK_K": block},
            kind=(self.kind, chunk.sizes, lse.data_ptr() % 16),
            # more warps share a long row, so that its scores stay in registers
            num_warps=4 if rows * block <= 4096 else 8,
        )
        return weights

    def backward(self, context: Tensor, lse: Tensor, grad: Tensor) -> tuple[Tensor, Tensor, Tensor, Tensor]:
        """Gradients of queries, keys, energy and values."""
        grad = grad.contiguous()
        batch_size, num_queries, _ = self.request.queries.shape
        chunks = list(split_into_chunks(batch_size, num_queries, self.request.keys.shape[1], self.max_batch()))
        delta, norms = self._deltas(context, grad)
        # the norms stay on the device; kernels load them
        sums = GradientSums(self.request, chunks, norms, self.energy_block)
        for chunk in chunks:
            scores = self._scores_with_outliers(chunk)
            weights = self._score_gradient(chunk, scores, (grad, lse, delta, norms))
            sums.add_values(chunk, weights, grad[chunk.batch, chunk.queries])
            # free the weights before the gradients of the features are allocated
            del weights
            self.add_input_gradients(chunk, scores, sums)
            self._add_outlier_gradients(chunk, scores, sums)
        return sums.finish()

    def _score_gradient(self, chunk: Chunk, scores: Tensor, grad_arguments: tuple[Tensor, ...]) -> Tensor:
        """Overwrite the scores by their gradient, and return the weights."""
        grad, (count, queries, keys) = grad_arguments[0], chunk.sizes
        weights = torch.empty_like(scores, dtype=grad.dtype)
        # wide values need smaller tiles to fit into shared memory
        tile = SQUARE_TILE if grad.shape[2] * grad.dtype.itemsize <= 512 else SQUARE_TILE // 2
        sizes = {"V": grad.shape[2], "BLOCK_Q": tile, "BLOCK_K": tile, "BLOCK_V": tile_size(grad.shape[2])}
        arguments = (scores, *self.mask_arguments, self.request.values, *grad_arguments, weights)
        launch(
            gradient_kernel,
            (-(-queries // tile), -(-keys // tile), count),
            (*arguments, *self._chunk_arguments(chunk)),
            self.constants | {"SCALES": self.is_sine} | sizes,
            kind=(self.kind, chunk.sizes, grad.data_ptr() % 16, grad_arguments[1].data_ptr() % 16),
            num_warps=8,
        )
        return weights

    def _add_outlier_gradients(self, chunk: Chunk, score_grad: Tensor, sums: GradientSums) -> None:
        """Add the gradients of the outlier units; last, because the other kernels write these elements as zeros."""
        request, (count, queries, keys) = self.request, chunk.sizes
        blocks, energy_blocks = -(-queries // SQUARE_TILE), -(-queries // self.energy_block)
        launch(
            outlier_gradients_kernel,
            (blocks + -(-keys // SQUARE_TILE), count, 1),
            (
                request.queries, request.keys, self.units, self.outliers, score_grad, sums.norms, request.dropout,
                sums.queries, sums.keys, sums.energy(chunk), *self._chunk_arguments(chunk), blocks, energy_blocks,
            ),
            {"SCALES": self.is_sine, "TERMS": TERMS, "H": request.energy.shape[0], "ENERGY_BLOCK": self.energy_block,
             "BLOCK": SQUARE_TILE},
            kind=(self.kind, chunk.sizes),
        )  # fmt: skip

    def _chunk_arguments(self, chunk: Chunk) -> tuple[int, ...]:
        """First indices and lengths of a chunk, the last arguments of the kernels."""
        lengths = (*chunk.sizes[1:], self.request.queries.shape[1], self.request.keys.shape[1])
        return (chunk.batch.start, chunk.queries.start, chunk.keys.start, *lengths)

    def _deltas(self, context: Tensor, grad: Tensor) -> tuple[Tensor, Tensor]:
        """delta = sum(grad * context) of every query, and the two norms that bound the scores' gradient."""
        request, value_size = self.request, grad.shape[2]
        counts = (grad.shape[0] * grad.shape[1], request.values.shape[0] * request.values.shape[1])
        delta = grad.new_empty(grad.shape[:2], dtype=torch.float32)
        norms = torch.zeros(2, dtype=torch.int32, device=grad.device)
        launch(
            delta_kernel,
            (-(-max(counts) // DELTA_ROWS), 1, 1),
            (grad, context, request.values, replace_none(request.key_mask, grad), delta, norms, *counts),
            {"HAS_KEY_MASK": request.key_mask is not None, "V": value_size, "ROWS": DELTA_ROWS,
             "BLOCK_V": tile_size(value_size)},
            kind=(self.kind, grad.data_ptr() % 16, context.data_ptr() % 16),
        )  # fmt: skip
        return delta, norms


def merge_contexts(context: Tensor, lse: Tensor, other: Tensor, other_lse: Tensor) -> tuple[Tensor, Tensor]:
    """Attention over two sets of keys as attention over their union: each weighted by its share of the sum."""
    total = torch.logaddexp(lse, other_lse)
    # where neither set has an allowed key, exp(-inf - 0) gives 0 and exp(-inf + inf) would give NaN
    base = total.masked_fill(total == -torch.inf, 0.0)
    first, second = ((part - base).exp()[..., None] for part in (lse, other_lse))
    return context * first + other * second, total
