"""Teacher forcing: a step-by-step decoder over a whole target.

`unroll_features` is what training runs: the words are embedded beforehand, the readout is applied afterwards to all
positions at once, and only what depends on the last state is done step by step. `unroll` goes through the whole step.
A model may have a faster loop of its own (kernels/recurrent); `may_fuse` says where it must not take it. Such a loop
goes by `Steps`, from which rows that have ended may drop out.

The true previous token goes in at each step; with an `own_output_ratio` some rows read what they themselves just said
instead (scheduled sampling, Bengio et al. 2015. https://arxiv.org/abs/1506.03099).
"""

from collections.abc import Callable
from dataclasses import dataclass
from typing import Any

import torch
from jaxtyping import Float, Int, Shaped
from torch import Tensor, nn

from regard.attention.trace import listeners
from regard.contracts import Memory, Step, is_watched
from regard.kernels.once import differentiable_once
from regard.kernels.product import is_plain_here

WORTH_SORTING = 0.04
"""Share of padding from which rows that have ended drop out of a loop; where there is less, sorting costs as much."""


@dataclass(frozen=True, kw_only=True)
class Advanced:
    """One step before its readout: what the readout sees, the state after it, and where the model looked."""

    features: Float[Tensor, "B size"]
    state: Any
    alignment: Float[Tensor, "B source"] | None = None


def may_fuse(model: nn.Module, *layers: nn.Module) -> bool:
    """Whether a loop may take these layers' weights and leave `advance` out.

    Not where a trace listens or a compiler reads along, nor where any part has hooks, nor where one of the layers is
    not a plain `nn.Linear` any more: all of those would be passed by.
    """
    if listeners() or is_plain_here() or any(type(layer) is not nn.Linear for layer in layers):
        return False
    return not is_watched(model)


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
        longest_first, order = lengths.sort(descending=True, stable=True)
        steps = torch.arange(num_steps).unsqueeze(1)
        going = longest_first > steps
        sizes = [size for size in going.sum(1).tolist() if size]
        if not sizes or sum(sizes) > (1 - WORTH_SORTING) * num_rows * num_steps:
            return whole
        return cls(shape=whole.shape, sizes=sizes, order=order, places=(order * num_steps + steps)[going])

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
    return lengths.device.type == "cpu" and not is_plain_here()


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
    @differentiable_once
    def backward(ctx: Any, grad: Tensor) -> tuple[Tensor, None]:
        (index,) = ctx.saved_tensors
        return grad.new_zeros(ctx.length, *grad.shape[1:]).index_copy_(0, index, grad), None


def unroll_features(
    advance: Callable[[Tensor, Any, Any], Advanced], words: Float[Tensor, "B T word"], *, state: Any, encoded: Any
) -> Float[Tensor, "B T size"]:
    """Features at every position, each step reading the true word and the state before it."""
    features: list[Tensor] = []
    for word in words.unbind(dim=1):
        done = advance(word, state, encoded)
        state = done.state
        features.append(done.features)
    return torch.stack(features, dim=1)


def unroll(
    step: Callable[[Tensor, Any, Any], Step],
    tokens: Int[Tensor, "B T"],
    *,
    state: Any,
    encoded: Any = None,
    own_output_ratio: float = 0.0,
) -> Float[Tensor, "B T vocab"]:
    """Logits after every token; the first token is always the true one."""
    if not 0.0 <= own_output_ratio <= 1.0:
        raise ValueError(f"own_output_ratio is {own_output_ratio}, expected a share between 0 and 1.")
    if tokens.shape[1] == 0:
        raise ValueError(f"tokens have shape {tuple(tokens.shape)}: a target begins with at least one token.")
    logits: list[Tensor] = []
    for position in range(tokens.shape[1]):
        read = tokens[:, position]
        if logits and own_output_ratio:
            own = torch.rand(read.shape, device=read.device) < own_output_ratio
            read = torch.where(own, logits[-1].detach().argmax(dim=-1), read)
        done = step(read, state, encoded)
        state = done.state
        logits.append(done.logits)
    return torch.stack(logits, dim=1)
