"""What the chunks of a backward walk add up to: gradients of queries, keys, energy and values."""

import torch
from torch import Tensor

from regard.kernels.additive.chunks import Chunk
from regard.kernels.additive.read import Rows


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
