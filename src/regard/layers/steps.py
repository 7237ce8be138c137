"""How a loop goes over padded rows: rows that have ended may drop out of it."""

from dataclasses import dataclass
from typing import Any

import torch
from jaxtyping import Float, Int, Shaped
from torch import Tensor

from regard.contracts import Memory
from regard.kernels import LOOP, differentiable_once, is_tracing

WORTH_SORTING = 0.04
"""Share of padding from which rows that have ended drop out of a loop; where there is less, sorting costs as much."""


@dataclass(frozen=True, kw_only=True)
class Steps:
    """How a loop goes over padded rows: how many rows each step has, and where those stand.

    On a CPU, where lengths may be looked at, rows are taken longest first and drop out at their end. Elsewhere, and
    where hardly anything is padding, every step has all rows in the order in which they stand.
    """

    shape: tuple[int, int]
    sizes: list[int]
    order: Int[Tensor, " B"] | None = None
    places: Int[Tensor, " N"] | None = None

    @classmethod
    def whole(cls, num_rows: int, num_steps: int) -> "Steps":
        """All rows to the end."""
        return cls(shape=(num_rows, num_steps), sizes=[num_rows] * num_steps)

    @classmethod
    def of(cls, lengths: Int[Tensor, " B"], num_steps: int) -> "Steps":
        """Steps over rows of these lengths, in a rectangle so long."""
        num_rows = lengths.shape[0]
        whole = cls.whole(num_rows, num_steps)
        if not may_look(lengths):
            return whole
        # every row takes a first step, even one without a token: what it reads has as many rows
        longest_first, order = lengths.clamp(min=1).sort(descending=True, stable=True)
        steps = torch.arange(num_steps).unsqueeze(1)
        unended = longest_first > steps
        sizes = [size for size in unended.sum(1).tolist() if size]
        if not sizes or sum(sizes) > (1 - WORTH_SORTING) * num_rows * num_steps:
            return whole
        return cls(shape=whole.shape, sizes=sizes, order=order, places=(order * num_steps + steps)[unended])

    def sort(self, rows: Shaped[Tensor, "B ..."]) -> Shaped[Tensor, "B ..."]:
        """Rows in the order of the loop."""
        return rows if self.order is None else _Pick.apply(rows, self.order)

    def restore(self, rows: Shaped[Tensor, "B ..."]) -> Shaped[Tensor, "B ..."]:
        """Rows in the order in which they stand."""
        return rows if self.order is None else torch.zeros_like(rows).index_copy(0, self.order, rows)

    def sort_memory(self, memory: Memory) -> Memory:
        """What each row looks at, in the order of the loop."""
        if self.order is None:
            return memory
        mask = None if memory.mask is None else self.sort(memory.mask)
        return Memory(keys=self.sort(memory.keys), values=self.sort(memory.values), mask=mask)

    def pack(self, padded: Shaped[Tensor, "B T ..."]) -> Shaped[Tensor, "N ..."]:
        """What the steps need, one after the other."""
        if self.places is None:
            return padded.transpose(0, 1).flatten(0, 1)
        return _Pick.apply(padded.flatten(0, 1), self.places)

    def unpack(self, packed: Shaped[Tensor, "N ..."]) -> Shaped[Tensor, "B T ..."]:
        """Everything back at its place, and zeros where a row has ended."""
        num_rows, num_steps = self.shape
        if self.places is None:
            return packed.unflatten(0, (num_steps, num_rows)).transpose(0, 1)
        padded = packed.new_zeros(num_rows * num_steps, *packed.shape[1:])
        return padded.index_copy(0, self.places, packed).unflatten(0, self.shape)


def may_look(lengths: Int[Tensor, " B"]) -> bool:
    """Whether a shape may depend on these numbers: no device is waited for, and no compiler reads along."""
    return lengths.device.type == "cpu" and not is_tracing()


def going(states: Float[Tensor, "B size"], num_rows: int) -> Float[Tensor, "n size"]:
    """The states of the rows that have not ended."""
    return states if states.shape[0] == num_rows else states[:num_rows]


class _Pick(torch.autograd.Function):
    """Rows out of a table, none of them twice: their gradients need no adding up."""

    @staticmethod
    def forward(ctx: Any, table: Tensor, index: Tensor) -> Tensor:
        ctx.save_for_backward(index)
        ctx.length = table.shape[0]
        return table.index_select(0, index)

    @staticmethod
    @differentiable_once(LOOP)
    def backward(ctx: Any, grad: Tensor) -> tuple[Tensor, None]:
        (index,) = ctx.saved_tensors
        return grad.new_zeros(ctx.length, *grad.shape[1:]).index_copy_(0, index, grad), None
