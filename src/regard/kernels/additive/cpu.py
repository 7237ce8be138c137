"""Fused additive attention on the CPU: blocks of queries, compiled so that no score is written to memory.

One block of additive attention, compiled so that no number of a (query, key, unit) triple is ever stored.

    tanh(q + k) = n / (n + 2),   n = e^(2(q + k)) - 1 = scale(q) other(k) + shift(q)

The exponentials are taken once for each query and each key; what is left for each triple is a product, two sums and a
division. `factors` picks how n is split. Where q and k are small, n is small, and e^2q (e^2k - 1) + (e^2q - 1) keeps
its digits; elsewhere that would cancel, and e^2q e^2k - 1 is exact enough, since n matters to the precision of 1 only.

Shapes: B rows, Q queries and K keys of the block, H hidden units.

Fused additive attention on the CPU: blocks of queries, computed again in backward, in memory linear in the lengths.

    S = energy . tanh(q + k),   P = softmax(S),   context = P values
    dS = P (dP - sum_k P dP),   dq = energy sum_k dS (1 - tanh^2),   denergy = sum_qk dS tanh

Each block reads only the keys between the first and the last that its queries may read, so a window costs linear time.

Shapes: B rows, Q queries, K keys, H hidden units.
"""

import warnings
from collections.abc import Callable, Iterator
from dataclasses import dataclass
from functools import cache, partial, reduce
from typing import NamedTuple, TypeVar

import torch
from jaxtyping import Bool, Float
from torch import Tensor
from torch.fx.experimental import _config as symbols

from regard.kernels.additive.reference import Rows

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


PAIRS = 2**18
"""Weights of a block, unless the keys are so many that FEWEST queries have more."""
FEWEST = 32
"""Queries of a block that share each key once it is in the cache."""


class Block(NamedTuple):
    """Some rows, some of their queries, and the keys that these may read."""

    rows: slice
    queries: slice
    keys: slice


@dataclass(frozen=True, kw_only=True)
class Work:
    """A read in the precision of its sums, keys and values that nobody may read set to zero."""

    rows: Rows
    factors: Factors
    energy: Float[Tensor, " H"]
    values: Float[Tensor, "B K value"]
    steps: Steps

    def block_factors(self, block: Block) -> Iterator[tuple[slice, Factors]]:
        """The factors of a block, some keys at a time: where these are among the block's, and the factors."""
        scale, shift, other, level = self.factors
        scale = None if scale is None else packed(scale[block.rows, block.queries])
        shift, other = packed(shift[block.rows, block.queries]), other[block.rows, block.keys]
        tile = self.steps.tile(shift.shape[0] * shift.shape[1], shift.shape[2])
        for part in pieces(other.shape[1], tile):
            yield part, Factors(scale, shift, packed(other[:, part]), level)

    def scores(self, block: Block) -> Float[Tensor, "b q k"]:
        """The block's scores, minus infinity where the mask forbids."""
        parts = [self.steps.scores(tile, self.energy) for _, tile in self.block_factors(block)]
        scores = parts[0] if len(parts) == 1 else torch.cat(parts, dim=-1)
        allowed = allowed_in(block, self.rows)
        return scores if allowed is None else scores.masked_fill_(~allowed, -torch.inf)


def forward(rows: Rows) -> tuple[Float[Tensor, "B Q value"], Float[Tensor, "B Q"]]:
    """Context, and the logarithm of the sum of exp(scores); a query that may read nothing has zeros and -inf."""
    return with_steps(partial(forward_blocks, rows), num_triples=num_triples(rows))


def backward(
    rows: Rows, context: Float[Tensor, "B Q value"], lse: Float[Tensor, "B Q"], grad: Float[Tensor, "B Q value"]
) -> tuple[Float[Tensor, "B Q H"], Float[Tensor, "B K H"], Float[Tensor, " H"], Float[Tensor, "B K value"]]:
    """Gradients of queries, keys, energy and values, given that of the context.

    The context itself is not needed: a block has all weights of its queries, and their mean slope from them is rounded
    as the slopes are.
    """
    return with_steps(partial(backward_blocks, rows, lse, grad), num_triples=num_triples(rows))


def num_triples(rows: Rows) -> int:
    """Hidden units of all pairs."""
    return rows.queries.numel() * rows.keys.shape[1]


def forward_blocks(rows: Rows, steps: Steps) -> tuple[Float[Tensor, "B Q value"], Float[Tensor, "B Q"]]:
    """Block after block."""
    shape, dtype = (*rows.queries.shape[:2], rows.values.shape[2]), precision(rows)
    context = rows.values.new_zeros(shape, dtype=dtype)
    lse = rows.values.new_full(shape[:2], -torch.inf, dtype=dtype)
    if not num_triples(rows):
        return context.to(rows.values.dtype), lse
    work, generator = work_of(rows, steps), generator_of(rows)
    for block in blocks_of(rows):
        weights = work.scores(block)
        peak = finite(weights.amax(-1, keepdim=True))
        weights.sub_(peak).exp_()
        total = weights.sum(-1, keepdim=True)
        lse[block.rows, block.queries] = (peak + total.log()).squeeze(-1)
        weights.div_(divisor(total))
        if generator is not None:
            weights.mul_(kept(weights, rows.dropout, generator))
        context[block.rows, block.queries] = weights @ work.values[block.rows, block.keys]
    return context.to(rows.values.dtype), lse


def backward_blocks(
    rows: Rows, lse: Float[Tensor, "B Q"], grad: Float[Tensor, "B Q value"], steps: Steps
) -> tuple[Float[Tensor, "B Q H"], Float[Tensor, "B K H"], Float[Tensor, " H"], Float[Tensor, "B K value"]]:
    """Each block's weights again, then what they and the scores pass on."""
    sides, dtype = (rows.queries, rows.keys, rows.energy, rows.values), precision(rows)
    to_queries, to_keys, to_energy, to_values = (side.new_zeros(side.shape, dtype=dtype) for side in sides)
    if num_triples(rows):
        work, generator = work_of(rows, steps), generator_of(rows)
        grad, lse = grad.to(dtype), finite(lse)[..., None]
        for block in blocks_of(rows):
            ours, theirs = (block.rows, block.queries), (block.rows, block.keys)
            weights = work.scores(block).sub_(lse[ours]).exp_()
            weights.div_(divisor(weights.sum(-1, keepdim=True)))  # lse is rounded
            slopes = grad[ours] @ work.values[theirs].mT
            read = weights
            if generator is not None:
                keep = kept(weights, rows.dropout, generator)
                slopes.mul_(keep)
                read = weights * keep
            to_values[theirs] += read.mT @ grad[ours]
            slopes.sub_(torch.linalg.vecdot(weights, slopes)[..., None]).mul_(weights)
            for part, tile in work.block_factors(block):
                by_query = packed(slopes[..., part])
                by_key = packed(by_query.mT) if steps.compiled else None
                found = steps.slopes(tile, by_query, by_key)
                to_queries[ours] += found[0]
                to_keys[theirs][:, part] += found[1]
                to_energy += found[2].sum((0, 1))
        to_queries *= work.energy
        to_keys *= work.energy
    return to_queries.to(sides[0]), to_keys.to(sides[1]), to_energy.to(sides[2]), to_values.to(sides[3])


def work_of(rows: Rows, steps: Steps) -> Work:
    """Zeros where nobody may read: what padding holds, NaN too, must not matter."""
    dtype = precision(rows)
    queries, keys, energy, values = (
        each.detach().to(dtype, copy=True) for each in (rows.queries, rows.keys, rows.energy, rows.values)
    )
    if rows.real is not None:
        keys, values = (side.masked_fill(~rows.real[..., None], 0) for side in (keys, values))
    return Work(rows=rows, factors=factors(queries, keys), energy=energy, values=values, steps=steps)


def packed(tensor: Float[Tensor, "b first second"]) -> Float[Tensor, "b first second"]:
    """A copy of its own: torch.compile would compile again for other strides, or for a view of another tensor."""
    return tensor.clone(memory_format=torch.contiguous_format)


def precision(rows: Rows) -> torch.dtype:
    """Half types are summed in float32."""
    wide = torch.float64 in (rows.queries.dtype, rows.keys.dtype, rows.energy.dtype, rows.values.dtype)
    return torch.float64 if wide else torch.float32


def finite(peak: Float[Tensor, "..."]) -> Float[Tensor, "..."]:
    """Zero for a query that may read nothing: its weights are exp(-inf), not NaN."""
    return peak.masked_fill(peak == -torch.inf, 0)


def divisor(total: Float[Tensor, "b q 1"]) -> Float[Tensor, "b q 1"]:
    """One for a query that may read nothing, whose weights are zeros already."""
    return total.masked_fill(total == 0, 1)


def blocks_of(rows: Rows) -> Iterator[Block]:
    """Whole rows while they are small, else parts of one, of nearly equal size."""
    batch, num_queries, num_keys = *rows.queries.shape[:2], rows.keys.shape[1]
    at_once = max(FEWEST, PAIRS // num_keys)
    for one in pieces(batch, max(1, at_once // num_queries)):
        for part in pieces(num_queries, at_once):
            keys = keys_between(one, part, rows)
            if keys.start < keys.stop:
                yield Block(one, part, keys)


def pieces(length: int, most: int) -> Iterator[slice]:
    """Slices of nearly equal length."""
    number = -(-length // most)
    for index in range(number):
        yield slice(index * length // number, (index + 1) * length // number)


def keys_between(one: slice, part: slice, rows: Rows) -> slice:
    """From the first to the last key that any of these queries may read."""
    start, stop = 0, rows.keys.shape[1]
    if rows.low is not None:
        start = int(of_rows(rows.low, one)[:, part].amin())
    if rows.high is not None:
        stop = int(of_rows(rows.high, one)[:, part].amax())
    if rows.real is not None:
        places = of_rows(rows.real, one)[:, start:stop].any(0).nonzero()
        start, stop = (start + int(places[0]), start + int(places[-1]) + 1) if len(places) else (start, start)
    return slice(start, stop)


def of_rows(mask: Tensor, one: slice) -> Tensor:
    """The mask of these rows; one row serves all."""
    return mask if mask.shape[0] == 1 else mask[one]


def allowed_in(block: Block, rows: Rows) -> Bool[Tensor, "#b #q k"] | None:
    """Which keys of the block each of its queries may read; None: all."""
    places = torch.arange(block.keys.start, block.keys.stop, device=rows.keys.device)
    found = []
    if rows.low is not None:
        found.append(places >= of_rows(rows.low, block.rows)[:, block.queries, None])
    if rows.high is not None:
        found.append(places < of_rows(rows.high, block.rows)[:, block.queries, None])
    if rows.real is not None:
        found.append(of_rows(rows.real, block.rows)[:, None, block.keys])
    if rows.written is not None:
        found.append(of_rows(rows.written, block.rows)[:, block.queries, block.keys])
    return reduce(torch.logical_and, found) if found else None


def generator_of(rows: Rows) -> torch.Generator | None:
    """Where the dropped weights are drawn from, block after block; backward draws the same."""
    if not rows.dropout:
        return None
    assert rows.seed is not None
    return torch.Generator().manual_seed(int(rows.seed))


def kept(weights: Float[Tensor, "b q k"], dropout: float, generator: torch.Generator) -> Float[Tensor, "b q k"]:
    """What each weight is multiplied by: 0, or 1 / (1 - dropout)."""
    keep = torch.empty_like(weights).bernoulli_(1 - dropout, generator=generator)
    return keep.div_(1 - dropout) if dropout < 1 else keep
