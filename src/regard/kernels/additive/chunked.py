"""Additive attention a chunk of scores at a time, forward and backward.

Scores are formed some at a time: which rows, queries and keys go together.

Chunks are of bounded size, so that memory grows with the length alone.

What the chunks of a backward walk add up to: gradients of queries, keys, energy and values.

Additive attention a chunk of scores at a time: the walk that the sine path and the exact path share.

    forward    scores of a chunk -> softmax and values, with running sums from chunk to chunk of keys
    backward   the same scores again -> their gradient -> gradients of queries, keys and energy

A path says how scores are formed and how their gradient goes back. Every sum has one order, so results are the same
each time.
"""

from abc import ABC, abstractmethod
from collections.abc import Iterator
from dataclasses import dataclass
from typing import Any

import torch
from torch import Tensor

from regard.kernels.additive.exact_triton import apart_gradients_kernel, apart_scores_kernel
from regard.kernels.additive.reference import Rows
from regard.kernels.additive.shared_triton import delta_kernel, gradient_kernel, softmax_kernel
from regard.kernels.additive.unit_ranges import TERMS, kind_of, number_of, pointer, prepared, settle
from regard.kernels.triton_support import launch, power_of_two, tile_size

CELLS = 2**25
"""Scores formed at a time: 64 MiB in half precision."""
MOST_ROWS = 2**16 - 1
"""What a GPU counts along the axes of a launch but the first."""
MOST_QUERIES, MOST_KEYS = 4096, 8192
"""Of a long row: a query's scores lie in one program's registers."""


@dataclass(frozen=True)
class Chunk:
    """Queries and keys of some rows, whose scores are formed together."""

    rows: slice
    queries: slice
    keys: slice

    @property
    def sizes(self) -> tuple[int, int, int]:
        """How many rows, queries and keys."""
        rows, queries, keys = (part.stop - part.start for part in (self.rows, self.queries, self.keys))
        return rows, queries, keys


def chunks(num_rows: int, num_queries: int, num_keys: int, most_rows: int) -> Iterator[Chunk]:
    """All pairs, keys innermost: several rows at once where they are short, part of one where it is long."""
    keys = min(num_keys, MOST_KEYS)
    queries = min(num_queries, max(CELLS // keys, 1))
    if num_queries * num_keys > CELLS:
        queries = min(queries, MOST_QUERIES)
    rows = 1
    if (queries, keys) == (num_queries, num_keys):
        rows = max(min(CELLS // (queries * keys), most_rows), 1)
    for row in range(0, num_rows, rows):
        for query in range(0, num_queries, queries):
            for key in range(0, num_keys, keys):
                yield Chunk(
                    slice(row, min(row + rows, num_rows)),
                    slice(query, min(query + queries, num_queries)),
                    slice(key, min(key + keys, num_keys)),
                )


class Gradients:
    """What the chunks of a backward walk add up to; each part is written by its first chunk and added to by others."""

    def __init__(self, rows: Rows, walk: list[Chunk], largest: Tensor, fold_rows: int) -> None:
        self.rows, self.largest, self.fold_rows = rows, largest, fold_rows
        sides = (rows.queries, rows.keys, rows.values)
        whole = all(chunk.sizes[1:] == (rows.queries.shape[1], rows.keys.shape[1]) for chunk in walk)
        self.queries, self.keys, self.values = (
            torch.empty_like(side, dtype=side.dtype if whole else torch.float32) for side in sides
        )
        self.energies: dict[tuple[int, int], Tensor] = {}

    def energy(self, chunk: Chunk) -> Tensor:
        """Sums for the energy, one for every so many queries of the chunk."""
        place = (chunk.rows.start, chunk.queries.start)
        if place not in self.energies:
            blocks = -(-chunk.sizes[1] // self.fold_rows) * chunk.sizes[0]
            self.energies[place] = self.queries.new_empty(blocks, self.rows.energy.shape[0], dtype=torch.float32)
        return self.energies[place]

    def add_values(self, chunk: Chunk, weights: Tensor, grad: Tensor) -> None:
        """weights^T grad."""
        total = self.values[chunk.rows, chunk.keys]
        if chunk.queries.start == 0 and total.dtype == weights.dtype:
            torch.bmm(weights.mT, grad.to(weights.dtype), out=total)
        elif chunk.queries.start == 0:
            total.copy_(wide_product(weights.mT, grad.to(weights.dtype)))
        else:
            total.add_(wide_product(weights.mT, grad.to(weights.dtype)))

    def finish(self) -> tuple[Tensor, Tensor, Tensor, Tensor]:
        """All four, in the inputs' own precision."""
        rows = self.rows
        sums = list(self.energies.values())
        energy = (torch.cat(sums) if len(sums) > 1 else sums[0]).sum(0)
        found = (self.queries, self.keys, energy, self.values)
        given = (rows.queries, rows.keys, rows.energy, rows.values)
        queries, keys, energy, values = (grad.to(x.dtype) for grad, x in zip(found, given, strict=True))
        return queries, keys, energy, values


def wide_product(left: Tensor, right: Tensor) -> Tensor:
    """left @ right, summed and given in float32."""
    if left.device.type == "cuda" and left.dtype.itemsize == 2:
        return torch.bmm(left, right, out_dtype=torch.float32)
    return left.float() @ right.float()


DELTA_ROWS, SQUARE_TILE = 16, 64
IN_REGISTERS = 2048
"""Scores that one program of the softmax holds, at least; a row of more takes more."""


class Walk(ABC):
    """One way over the chunks; a subclass forms scores and takes their gradient back."""

    is_sine: bool
    fold_rows: int
    """How many queries share one of the energy's sums."""

    def __init__(self, rows: Rows) -> None:
        self.rows = rows = prepared(rows)
        self.kind = number_of((self.is_sine, kind_of(rows)))
        self.units, self.apart = settle(rows, self.kind, is_sine=self.is_sine)
        none = self.apart
        # what the kernels that read scores take after them
        self.given = (
            self.units, pointer(rows.low, none), pointer(rows.high, none), pointer(rows.real, none),
            pointer(rows.written, none), pointer(rows.seed, none), rows.dropout,
        )  # fmt: skip
        self.constants: dict[str, Any] = {
            "LOW": rows.low is not None,
            "HIGH": rows.high is not None,
            "REAL": rows.real is not None,
            "WRITTEN": 0 if rows.written is None else 1 if rows.written.shape[0] == 1 else 2,
            "DROPS": rows.dropout > 0,
            "TERMS": TERMS,
            "H": rows.energy.shape[0],
        }

    @abstractmethod
    def scores(self, chunk: Chunk) -> Tensor:
        """A chunk's scores, without the energy's size and the units that stand apart."""

    @abstractmethod
    def fold(self, chunk: Chunk, score_grad: Tensor, into: Gradients) -> None:
        """Add what a chunk's score gradient says to queries, keys and energy."""

    def most_rows(self) -> int:
        """How many rows a chunk may have, however short they are."""
        return MOST_ROWS

    def forward(self) -> tuple[Tensor, Tensor]:
        """Context and log-sum-exp."""
        rows = self.rows
        (num_rows, num_queries, _), (_, num_keys, value_size) = rows.queries.shape, rows.values.shape
        context = rows.values.new_empty(num_rows, num_queries, value_size)
        lse = context.new_empty(num_rows, num_queries, dtype=torch.float32)
        running: tuple[Tensor, Tensor] | None = None
        for chunk in chunks(num_rows, num_queries, num_keys, self.most_rows()):
            values, is_first = rows.values[chunk.rows, chunk.keys], chunk.keys.start == 0
            its_lse = lse[chunk.rows, chunk.queries]
            if is_first and chunk.keys.stop == num_keys:
                torch.bmm(self._weights(chunk, its_lse), values, out=context[chunk.rows, chunk.queries])
                continue
            found = wide_product(self._weights(chunk, its_lse), values), its_lse.clone()
            running = found if is_first or running is None else merged(*running, *found)
            if chunk.keys.stop == num_keys:
                context[chunk.rows, chunk.queries], lse[chunk.rows, chunk.queries] = running
        return context, lse

    def _whole_scores(self, chunk: Chunk) -> Tensor:
        """With the units that stand apart, still without the energy's size."""
        scores, (count, queries, keys) = self.scores(chunk), chunk.sizes
        launch(
            apart_scores_kernel,
            (-(-queries // SQUARE_TILE), -(-keys // SQUARE_TILE), count),
            (self.rows.queries, self.rows.keys, self.units, self.apart, scores, *self._place(chunk)),
            {"H": self.rows.energy.shape[0], "BLOCK": SQUARE_TILE},
            kind=(self.kind, chunk.sizes, scores.dtype),
        )
        return scores

    def _weights(self, chunk: Chunk, lse: Tensor) -> Tensor:
        """Softmax of a chunk's scores, in their place where the types have one size."""
        scores, values, (count, queries, keys) = self._whole_scores(chunk), self.rows.values, chunk.sizes
        same = scores.dtype.itemsize == values.dtype.itemsize
        weights = scores.view(values.dtype) if same else torch.empty_like(scores, dtype=values.dtype)
        block = power_of_two(keys)
        rows = max(1, IN_REGISTERS // block)
        launch(
            softmax_kernel,
            (-(-queries // rows), count, 1),
            (scores, *self.given, weights, lse, *self._place(chunk)),
            self.constants | {"ROWS": rows, "BLOCK_K": block},
            kind=(self.kind, chunk.sizes, lse.data_ptr() % 16),
            num_warps=4 if rows * block <= 4096 else 8,
        )
        return weights

    def backward(self, context: Tensor, lse: Tensor, grad: Tensor) -> tuple[Tensor, Tensor, Tensor, Tensor]:
        """Gradients of queries, keys, energy and values."""
        grad = grad.contiguous()
        num_rows, num_queries, _ = self.rows.queries.shape
        walk = list(chunks(num_rows, num_queries, self.rows.keys.shape[1], self.most_rows()))
        delta, largest = self._deltas(context, grad)
        into = Gradients(self.rows, walk, largest, self.fold_rows)
        for chunk in walk:
            scores = self._whole_scores(chunk)
            weights = self._score_gradient(chunk, scores, (grad, lse, delta, largest))
            into.add_values(chunk, weights, grad[chunk.rows, chunk.queries])
            del weights
            self.fold(chunk, scores, into)
            self._add_apart(chunk, scores, into)
        return into.finish()

    def _score_gradient(self, chunk: Chunk, scores: Tensor, given: tuple[Tensor, ...]) -> Tensor:
        """Puts the scores' gradient in their place; the weights."""
        grad, (count, queries, keys) = given[0], chunk.sizes
        weights = torch.empty_like(scores, dtype=grad.dtype)
        tile = SQUARE_TILE if grad.shape[2] * grad.dtype.itemsize <= 512 else SQUARE_TILE // 2
        sizes = {"V": grad.shape[2], "BLOCK_Q": tile, "BLOCK_K": tile, "BLOCK_V": tile_size(grad.shape[2])}
        launch(
            gradient_kernel,
            (-(-queries // tile), -(-keys // tile), count),
            (scores, *self.given, self.rows.values, *given, weights, *self._place(chunk)),
            self.constants | {"SCALES": self.is_sine} | sizes,
            kind=(self.kind, chunk.sizes, grad.data_ptr() % 16, given[1].data_ptr() % 16),
            num_warps=8,
        )
        return weights

    def _add_apart(self, chunk: Chunk, score_grad: Tensor, into: Gradients) -> None:
        """What units that stand apart are due."""
        rows, (count, queries, keys) = self.rows, chunk.sizes
        blocks, energy_blocks = -(-queries // SQUARE_TILE), -(-queries // self.fold_rows)
        launch(
            apart_gradients_kernel,
            (blocks + -(-keys // SQUARE_TILE), count, 1),
            (
                rows.queries, rows.keys, self.units, self.apart, score_grad, into.largest, rows.dropout, into.queries,
                into.keys, into.energy(chunk), *self._place(chunk), blocks, energy_blocks,
            ),
            {"SCALES": self.is_sine, "TERMS": TERMS, "H": rows.energy.shape[0], "SHARE": self.fold_rows,
             "BLOCK": SQUARE_TILE},
            kind=(self.kind, chunk.sizes),
        )  # fmt: skip

    def _place(self, chunk: Chunk) -> tuple[int, ...]:
        """Where a chunk lies, as those kernels take it last."""
        lengths = (*chunk.sizes[1:], self.rows.queries.shape[1], self.rows.keys.shape[1])
        return (chunk.rows.start, chunk.queries.start, chunk.keys.start, *lengths)

    def _deltas(self, context: Tensor, grad: Tensor) -> tuple[Tensor, Tensor]:
        """sum(grad * context) of every query, and the two norms that bound the scores' gradient."""
        rows, value_size = self.rows, grad.shape[2]
        counts = (grad.shape[0] * grad.shape[1], rows.values.shape[0] * rows.values.shape[1])
        delta = grad.new_empty(grad.shape[:2], dtype=torch.float32)
        largest = torch.zeros(2, dtype=torch.int32, device=grad.device)
        launch(
            delta_kernel,
            (-(-max(counts) // DELTA_ROWS), 1, 1),
            (grad, context, rows.values, pointer(rows.real, grad), delta, largest, *counts),
            {"REAL": rows.real is not None, "V": value_size, "ROWS": DELTA_ROWS, "BLOCK_V": tile_size(value_size)},
            kind=(self.kind, grad.data_ptr() % 16, context.data_ptr() % 16),
        )
        return delta, largest


def merged(context: Tensor, lse: Tensor, more: Tensor, more_lse: Tensor) -> tuple[Tensor, Tensor]:
    """Two reads of different keys as one, each weighed by its share of the sum."""
    total = torch.logaddexp(lse, more_lse)
    # where there was nothing to read, nothing comes of nothing
    base = total.masked_fill(total == -torch.inf, 0.0)
    first, second = ((part - base).exp()[..., None] for part in (lse, more_lse))
    return context * first + more * second, total
