"""One block of additive attention, compiled so that no number of a (query, key, unit) triple is ever stored.

    tanh(q + k) = n / (n + 2),   n = e^(2(q + k)) - 1 = scale(q) other(k) + shift(q)

The exponentials are taken once for each query and each key; what is left for each triple is a product, two sums and a
division. `factors` picks how n is split. Where q and k are small, n is small, and e^2q (e^2k - 1) + (e^2q - 1) keeps
its digits; elsewhere that would cancel, and e^2q e^2k - 1 is exact enough, since n matters to the precision of 1 only.

Shapes: B rows, Q queries and K keys of the block, H hidden units.
"""

import warnings
from collections.abc import Callable
from dataclasses import dataclass
from functools import cache, partial
from typing import NamedTuple, TypeVar

import torch
from jaxtyping import Float
from torch import Tensor
from torch.fx.experimental import _config as symbols

COMPILE = True
"""Whether torch.compile may be used at all."""
WORTH_COMPILING = 2**26
"""Triples from which a second or two of compilation pay."""
LARGEST = 20.0
"""Bound of q and k, once centred: n is then at most e^80, which float32 can hold."""
CELLS = 2**16
"""Numbers that a tile should keep in a core's cache."""
SMALL = 1.0
"""Bound of q and k below which n keeps the digits of both."""
NOT_COMPILED = (
    "additive attention could not be compiled and goes on several times slower. If a C++ compiler is missing, install"
    " g++, or set CXX to yours. torch.compile said: "
)

Result = TypeVar("Result")


class Factors(NamedTuple):
    """What is known of queries and keys before they meet; no scale: shift and other are q and k as they are."""

    scale: Float[Tensor, "B Q H"] | None
    shift: Float[Tensor, "B Q H"]
    other: Float[Tensor, "B K H"]
    level: Float[Tensor, ""]
    """0 if tanh^2 is near 0, else 1."""


def factors(queries: Float[Tensor, "B Q H"], keys: Float[Tensor, "B K H"]) -> Factors:
    """Exponentials, if they stay finite; a NaN does not."""
    # whole numbers, so that moving a unit from queries to keys rounds little
    middle = ((queries.amax((0, 1)) - keys.amax((0, 1))) / 2).round()
    left, right = queries - middle, keys + middle
    none, full = queries.new_zeros(()), queries.new_ones(())
    if not torch.maximum(left.amax(), right.amax()) <= LARGEST:
        return Factors(None, queries, keys, full)
    scale = (2 * left).exp()
    if torch.maximum(left.abs().amax(), right.abs().amax()) <= SMALL:
        return Factors(scale, (2 * left).expm1(), (2 * right).expm1(), none)
    return Factors(scale, torch.full_like(left, -1), (2 * right).exp(), full)


def compare(split: Factors) -> Float[Tensor, "B Q K H"]:
    """tanh(q + k) of all triples."""
    if split.scale is None:
        return torch.tanh(split.shift[:, :, None] + split.other[:, None])
    numerator = split.scale[:, :, None] * split.other[:, None] + split.shift[:, :, None]
    return numerator / (numerator + 2)


def scores_of(split: Factors, energy: Float[Tensor, " H"]) -> Float[Tensor, "B Q K"]:
    """Sum over units of energy tanh(q + k)."""
    return (compare(split) * energy).sum(-1)


def slopes_of(
    split: Factors, grad: Float[Tensor, "B Q K"], grad_by_key: Float[Tensor, "B K Q"] | None = None
) -> tuple[Float[Tensor, "B Q H"], Float[Tensor, "B K H"], Float[Tensor, "B Q H"]]:
    """Gradients of queries and keys, but for the energy's factor, and each query's part in that of the energy.

    The scores' gradient sums to zero over a query's keys, so sum_k dS (1 - tanh^2) = sum_k dS (level - tanh^2), which
    keeps the digits of a small tanh. Compiled code sums over keys and over queries in two loops, and wants the scores'
    gradient in the order of each.
    """
    tanh = compare(split)
    pulls = grad[..., None] * tanh
    to_queries = ((grad * split.level)[..., None] - pulls * tanh).sum(2)
    by_key = grad[..., None] if grad_by_key is None else grad_by_key.mT[..., None]
    return to_queries, (by_key - by_key * tanh * tanh).sum(1), pulls.sum(2)


@dataclass(frozen=True, kw_only=True)
class Steps:
    """How blocks are computed: compiled, or by torch's own kernels, which write out every triple of a tile."""

    scores: Callable[..., Tensor] = scores_of
    slopes: Callable[..., tuple[Tensor, Tensor, Tensor]] = slopes_of
    compiled: bool = False

    def tile(self, num_queries: int, hidden_size: int) -> int:
        """Keys to compare at a time with so many queries, such that what is written fits in a cache."""
        return max(1, CELLS // (hidden_size * (1 if self.compiled else num_queries)))


@cache
def compiled_steps() -> Steps:
    """Nothing is compiled until it is called; lengths may change from call to call."""
    make = partial(torch.compile, dynamic=True, fullgraph=True)
    return Steps(scores=make(scores_of), slopes=make(slopes_of), compiled=True)


@torch.no_grad()
def with_steps(job: Callable[[Steps], Result], *, num_triples: int) -> Result:
    """The job compiled where that pays; where there is no compiler, the same without."""
    # lengths that happen to be equal would be taken to be so for ever
    apart = symbols.patch(use_duck_shape=False)  # type: ignore[attr-defined]
    with torch.autocast("cpu", enabled=False):
        if COMPILE and num_triples >= WORTH_COMPILING and not cannot_compile:
            try:
                with torch._dynamo.config.patch(recompile_limit=64), apart:
                    return job(compiled_steps())
            except (
                torch._dynamo.exc.TorchDynamoException,
                torch._dynamo.exc.FailOnRecompileLimitHit,
                OSError,  # no folder to write to
            ) as error:
                cannot_compile.append(str(error))
                warnings.warn(NOT_COMPILED + what_it_says(error), stacklevel=2)
        return job(Steps())


def what_it_says(error: Exception) -> str:
    """Who raised the error and why, without the trace below."""
    return " ".join(str(error).strip().splitlines()[:2])


cannot_compile: list[str] = []
"""What torch.compile said when it failed; it is not asked again."""
