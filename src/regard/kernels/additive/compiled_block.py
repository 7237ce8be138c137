"""tanh and its gradients for one block of additive attention, in loops that torch.compile can fuse.

    tanh(q + k) = n / (n + 2),   n = e^(2(q + k)) - 1 = scale(q) other(k) + shift(q)

The exponentials are taken once for each query and each key; each (query, key, unit) triple costs a product, two sums
and a division, and no triple is written to memory. `exponential_factors` chooses how n is split. Where q and k are
small, n is small, and e^2q (e^2k - 1) + (e^2q - 1) keeps its digits; elsewhere that form would cancel, and
e^2q e^2k - 1 is exact enough, because n then matters to the precision of 1 only.

Below `WORTH_COMPILING` triples, and where there is no C++ compiler, the same functions run uncompiled on tiles of keys.

Shapes: B batch elements, Q queries and K keys of the block, H hidden units.
"""

import warnings
from collections.abc import Callable
from dataclasses import dataclass
from functools import cache, partial
from typing import NamedTuple, TypeVar

import torch
from jaxtyping import Float
from torch import Tensor

from regard.contracts import torch_private

COMPILE = True
"""Whether torch.compile may be used."""
WORTH_COMPILING = 2**26
"""Triples from which one or two seconds of compilation pay off."""
LARGEST = 20.0
"""Bound of centred q and k: n is then at most e^80, which float32 can represent."""
SMALL = 1.0
"""Bound of q and k below which n keeps the digits of both."""
CACHE_ELEMENTS = 2**16
"""Elements of a tile that fit into the cache of one core."""
COMPILE_WARNING = (
    "additive attention could not be compiled and runs several times slower. If a C++ compiler is missing, install"
    " g++, or set CXX to yours. The error of torch.compile: "
)

Result = TypeVar("Result")


class ExponentialFactors(NamedTuple):
    """The parts of n, computed per query and per key. Without a scale, shift and other are q and k themselves."""

    scale: Float[Tensor, "B Q H"] | None
    shift: Float[Tensor, "B Q H"]
    other: Float[Tensor, "B K H"]
    level: Float[Tensor, ""]
    """0 if tanh^2 is near 0, else 1."""


def exponential_factors(queries: Float[Tensor, "B Q H"], keys: Float[Tensor, "B K H"]) -> ExponentialFactors:
    """Exponentials if they are finite, which they are not with a NaN; else the inputs themselves."""
    # only q + k matters, so each unit is centred between both sides to keep the exponents small; rounded to whole
    # numbers, the shift from queries to keys loses few digits
    middle = ((queries.amax((0, 1)) - keys.amax((0, 1))) / 2).round()
    left, right = queries - middle, keys + middle
    zero, one = queries.new_zeros(()), queries.new_ones(())
    # `not <=` instead of `>`, so that NaN takes this branch and shows in the result
    if not torch.maximum(left.amax(), right.amax()) <= LARGEST:
        return ExponentialFactors(None, queries, keys, one)
    scale = (2 * left).exp()
    if torch.maximum(left.abs().amax(), right.abs().amax()) <= SMALL:
        # expm1 keeps the digits that exp(x) - 1 loses near 0
        return ExponentialFactors(scale, (2 * left).expm1(), (2 * right).expm1(), zero)
    return ExponentialFactors(scale, torch.full_like(left, -1), (2 * right).exp(), one)


def pair_tanh(factors: ExponentialFactors) -> Float[Tensor, "B Q K H"]:
    """tanh(q + k) of all triples."""
    if factors.scale is None:
        return torch.tanh(factors.shift[:, :, None] + factors.other[:, None])
    numerator = factors.scale[:, :, None] * factors.other[:, None] + factors.shift[:, :, None]
    return numerator / (numerator + 2)


def block_scores(factors: ExponentialFactors, energy: Float[Tensor, " H"]) -> Float[Tensor, "B Q K"]:
    """Sum over units of energy tanh(q + k)."""
    return (pair_tanh(factors) * energy).sum(-1)


def block_gradients(
    factors: ExponentialFactors, grad: Float[Tensor, "B Q K"], grad_by_key: Float[Tensor, "B K Q"] | None = None
) -> tuple[Float[Tensor, "B Q H"], Float[Tensor, "B K H"], Float[Tensor, "B Q H"]]:
    """Gradients of queries and keys without the factor `energy`, and each query's term of the energy's gradient.

    The scores' gradient sums to zero over a query's keys, so sum_k dS (1 - tanh^2) = sum_k dS (level - tanh^2), which
    keeps the digits of a small tanh. `grad_by_key` is the same gradient, transposed: compiled code sums over keys and
    over queries in two loops, and each loop needs it contiguous in its own order.
    """
    tanh = pair_tanh(factors)
    weighted = grad[..., None] * tanh
    query_grad = ((grad * factors.level)[..., None] - weighted * tanh).sum(2)
    # no `level` here: the gradient of a key's scores does not sum to zero over the queries
    by_key = grad[..., None] if grad_by_key is None else grad_by_key.mT[..., None]
    return query_grad, (by_key - by_key * tanh * tanh).sum(1), weighted.sum(2)


@dataclass(frozen=True, kw_only=True)
class BlockFunctions:
    """The two functions of a block: compiled, or eager, which write out every triple of a tile."""

    scores: Callable[..., Tensor] = block_scores
    gradients: Callable[..., tuple[Tensor, Tensor, Tensor]] = block_gradients
    compiled: bool = False

    def tile_size(self, num_queries: int, hidden_size: int) -> int:
        """Keys per call such that the intermediate results fit into the cache."""
        # compiled code writes no triples, so only the keys themselves have to fit
        return max(1, CACHE_ELEMENTS // (hidden_size * (1 if self.compiled else num_queries)))


@cache
def compiled_functions() -> BlockFunctions:
    """Compiled at the first call, for any lengths."""
    compile_function = partial(torch.compile, dynamic=True, fullgraph=True)
    return BlockFunctions(
        scores=compile_function(block_scores), gradients=compile_function(block_gradients), compiled=True
    )


@torch.no_grad()
def run_compiled(job: Callable[[BlockFunctions], Result], *, num_triples: int) -> Result:
    """Run the job with compiled functions where that pays off, and with eager ones where compilation fails."""
    # autocast would round the sums to half precision
    with torch.autocast("cpu", enabled=False):
        if COMPILE and num_triples >= WORTH_COMPILING and not compile_errors:
            try:
                with torch_private.recompile_limit(64), torch_private.distinct_lengths():
                    return job(compiled_functions())
            except torch_private.compile_errors() as error:
                compile_errors.append(str(error))
                warnings.warn(COMPILE_WARNING + first_lines(error), stacklevel=2)
        return job(BlockFunctions())


def first_lines(error: Exception) -> str:
    """Type and message of an error from torch.compile, without its trace."""
    return " ".join(str(error).strip().splitlines()[:2])


compile_errors: list[str] = []
"""Why torch.compile failed; after the first failure it is not tried again."""
