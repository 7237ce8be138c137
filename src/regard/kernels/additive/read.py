"""What an additive kernel is asked: softmax(energy . tanh(queries + keys)) over what the mask allows, @ values."""

from collections.abc import Callable
from dataclasses import dataclass, replace
from functools import reduce

import torch
from jaxtyping import Bool, Float, Int
from torch import Tensor

from regard.contracts import Mask
from regard.kernels.read import Read


@dataclass(frozen=True, kw_only=True)
class AdditiveRead(Read):
    """One read of projected queries and keys."""

    energy: Float[Tensor, " H"]


@dataclass(frozen=True, kw_only=True)
class Rows:
    """The same read as kernels take it: one leading dimension, and the mask in linear memory.

    Query i of row b may read key j if low[b, i] <= j < high[b, i] and real[b, j]; a first dimension of 1 serves all
    rows. `seed` is one number, on the device, from which the dropped weights are drawn.
    """

    queries: Float[Tensor, "B Q H"]
    keys: Float[Tensor, "B K H"]
    energy: Float[Tensor, " H"]
    values: Float[Tensor, "B K value"]
    low: Int[Tensor, "#B Q"] | None = None
    high: Int[Tensor, "#B Q"] | None = None
    real: Bool[Tensor, "#B K"] | None = None
    seed: Int[Tensor, " 1"] | None = None
    dropout: float = 0.0

    def tensors(self) -> tuple[Tensor | None, ...]:
        """All fields but the last, in order."""
        return (
            self.queries, self.keys, self.energy, self.values, self.low, self.high, self.real, self.seed,
        )  # fmt: skip


def mask_refusal(mask: Mask | None) -> str | None:
    """Why this mask has no form in linear memory: each part must be an interval, or the same for all queries."""
    for part in () if mask is None else mask.parts():
        if part.per_query and part.interval(torch.zeros(1, dtype=torch.long, device="cpu")) is None:
            return (
                "a part of the mask is neither an interval of keys for each query nor the same for all queries: a"
                f" tensor, a predicate, or what | and ~ make of two ({type(part).__name__})"
            )
    return None


def rows_of(read: AdditiveRead) -> Rows:
    """One leading dimension, the mask's parts gathered into intervals and real keys."""
    *leading, num_queries, num_keys = read.shape
    queries, keys, values = (flat(side, leading) for side in (read.queries, read.keys, read.values))
    rows = Rows(queries=queries, keys=keys, energy=read.energy, values=values, dropout=float(read.dropout))
    if read.mask is None and not read.dropout:
        return rows
    if read.dropout:
        rows = replace(rows, seed=torch.randint(2**31 - 1, (1,), device=read.queries.device))
    parts = () if read.mask is None else read.mask.parts()
    places = torch.arange(num_queries, device=read.queries.device) + read.first_query
    # `mask_refusal` has seen that each is one
    intervals = [part.interval(places) or (None, None) for part in parts if part.per_query]
    low = narrowest([low for low, _ in intervals], torch.maximum)
    high = narrowest([high for _, high in intervals], torch.minimum)
    real = [part.allowed(read.grid(1)) for part in parts if not part.per_query]
    if real:
        together = reduce(torch.logical_and, real).expand(*leading, 1, num_keys).reshape(-1, num_keys)
        rows = replace(rows, real=together)
    shift = read.first_key
    return replace(
        rows,
        low=None if low is None else (low - shift).clamp(0, num_keys).int()[None],
        high=None if high is None else (high - shift).clamp(0, num_keys).int()[None],
    )


def flat(side: Float[Tensor, "... L size"], leading: list[int]) -> Float[Tensor, "B L size"]:
    """With one leading dimension, and no more work than that takes."""
    if len(leading) == 1 and side.shape[:-2] == (leading[0],):
        return side
    return side.expand(*leading, *side.shape[-2:]).reshape(-1, *side.shape[-2:])


def narrowest(bounds: list[Tensor | None], take: Callable[[Tensor, Tensor], Tensor]) -> Tensor | None:
    """The bound that all of these allow."""
    given = [bound for bound in bounds if bound is not None]
    return reduce(take, given) if given else None
