"""Additive attention on the CPU, in blocks of queries, in memory linear in the lengths.

    S = energy . tanh(q + k),   P = softmax(S),   context = P values
    dS = P (dP - sum_k P dP),   dq = energy sum_k dS (1 - tanh^2),   denergy = sum_qk dS tanh

The backward pass forms the scores of a block again, so that only the context and the log-sum-exp are stored. Each block
uses only the keys between the first and the last that its queries may attend to, so a window costs linear time.
`compiled_block.py` has the sums over hidden units.

Shapes: B batch elements, Q queries, K keys, H hidden units; lower-case letters are those of a block.
"""

from collections.abc import Iterator
from dataclasses import dataclass
from functools import partial, reduce
from typing import NamedTuple

import torch
from jaxtyping import Bool, Float
from torch import Tensor

from regard.kernels.additive.compiled_block import BlockFunctions, ExponentialFactors, exponential_factors, run_compiled
from regard.kernels.additive.reference import FlatRequest

BLOCK_WEIGHTS = 2**18
"""Weights of a block: 1 MiB in float32, which stays in a core's cache."""
FEWEST_QUERIES = 32
"""Queries of a block at least, however many keys there are: they share each key once it is in the cache."""


class QueryBlock(NamedTuple):
    """Slices of the batch and of the queries, and the keys that these queries may attend to."""

    batch: slice
    queries: slice
    keys: slice


@dataclass(frozen=True, kw_only=True)
class BlockInputs:
    """A request in the precision of its sums; masked keys and values are zero."""

    request: FlatRequest
    factors: ExponentialFactors
    energy: Float[Tensor, " H"]
    values: Float[Tensor, "B K value"]
    functions: BlockFunctions

    def key_tiles(self, block: QueryBlock) -> Iterator[tuple[slice, ExponentialFactors]]:
        """Tiles of the block's keys: their slice within the block, and the factors of queries and keys."""
        scale, shift, other, level = self.factors
        scale = None if scale is None else contiguous_copy(scale[block.batch, block.queries])
        shift = contiguous_copy(shift[block.batch, block.queries])
        other = other[block.batch, block.keys]
        tile_size = self.functions.tile_size(shift.shape[0] * shift.shape[1], shift.shape[2])
        for part in split_evenly(other.shape[1], tile_size):
            # contiguous: a slice has other strides in every block, for which torch.compile would compile again
            yield part, ExponentialFactors(scale, shift, contiguous_copy(other[:, part]), level)

    def scores(self, block: QueryBlock) -> Float[Tensor, "b q k"]:
        """The block's scores, minus infinity where the mask forbids."""
        # tile by tile: uncompiled functions write out every triple of a call
        parts = [self.functions.scores(tile, self.energy) for _, tile in self.key_tiles(block)]
        scores = parts[0] if len(parts) == 1 else torch.cat(parts, dim=-1)
        allowed = block_mask(block, self.request)
        return scores if allowed is None else scores.masked_fill_(~allowed, -torch.inf)


def forward(request: FlatRequest) -> tuple[Float[Tensor, "B Q value"], Float[Tensor, "B Q"]]:
    """Context and log-sum-exp of the scores; a query with nothing to attend to gets zeros and -inf."""
    return run_compiled(partial(forward_blocks, request), num_triples=num_triples(request))


def backward(
    request: FlatRequest,
    context: Float[Tensor, "B Q value"],
    lse: Float[Tensor, "B Q"],
    grad: Float[Tensor, "B Q value"],
) -> tuple[Float[Tensor, "B Q H"], Float[Tensor, "B K H"], Float[Tensor, " H"], Float[Tensor, "B K value"]]:
    """Gradients of queries, keys, energy and values, from the gradient of the context.

    The context itself is not needed. A block holds all weights of its queries, and the sum P dP over them has the same
    rounding as the terms it is subtracted from.
    """
    return run_compiled(partial(backward_blocks, request, lse, grad), num_triples=num_triples(request))


def num_triples(request: FlatRequest) -> int:
    """Pairs times hidden units."""
    return request.queries.numel() * request.keys.shape[1]


def forward_blocks(
    request: FlatRequest, functions: BlockFunctions
) -> tuple[Float[Tensor, "B Q value"], Float[Tensor, "B Q"]]:
    """Loop over the blocks of queries; each has all of its queries' keys, so its softmax is complete."""
    shape, dtype = (*request.queries.shape[:2], request.values.shape[2]), sum_dtype(request)
    # zeros and -inf: what a query keeps if its block has no keys
    context = request.values.new_zeros(shape, dtype=dtype)
    lse = request.values.new_full(shape[:2], -torch.inf, dtype=dtype)
    if not num_triples(request):
        return context.to(request.values.dtype), lse
    inputs, generator = prepare_inputs(request, functions), dropout_generator(request)
    for block in query_blocks(request):
        # in place from here on: the scores become the weights
        weights = inputs.scores(block)
        # subtracted before exp, which would overflow for scores over 88
        peak = replace_infinity(weights.amax(-1, keepdim=True))
        weights.sub_(peak).exp_()
        total = weights.sum(-1, keepdim=True)
        lse[block.batch, block.queries] = (peak + total.log()).squeeze(-1)
        weights.div_(replace_zero(total))
        if generator is not None:
            weights.mul_(dropout_factors(weights, request.dropout, generator))
        # dropped weights still count in `total`, as in F.dropout(softmax(scores))
        context[block.batch, block.queries] = weights @ inputs.values[block.batch, block.keys]
    return context.to(request.values.dtype), lse


def backward_blocks(
    request: FlatRequest, lse: Float[Tensor, "B Q"], grad: Float[Tensor, "B Q value"], functions: BlockFunctions
) -> tuple[Float[Tensor, "B Q H"], Float[Tensor, "B K H"], Float[Tensor, " H"], Float[Tensor, "B K value"]]:
    """Loop over the same blocks: form the weights again, then the gradients of scores and inputs."""
    sides, dtype = (request.queries, request.keys, request.energy, request.values), sum_dtype(request)
    query_grad, key_grad, energy_grad, value_grad = (side.new_zeros(side.shape, dtype=dtype) for side in sides)
    if num_triples(request):
        inputs, generator = prepare_inputs(request, functions), dropout_generator(request)
        grad, lse = grad.to(dtype), replace_infinity(lse)[..., None]
        for block in query_blocks(request):
            at_queries, at_keys = (block.batch, block.queries), (block.batch, block.keys)
            weights = inputs.scores(block).sub_(lse[at_queries]).exp_()
            # lse is rounded; after this division the weights sum to 1 again
            weights.div_(replace_zero(weights.sum(-1, keepdim=True)))
            # the gradient of the weights first, dP = dO V^T; it becomes dS in place
            score_grad = grad[at_queries] @ inputs.values[at_keys].mT
            dropped_weights = weights
            if generator is not None:
                # the blocks come in the order of the forward pass, so the generator draws the same factors
                dropout = dropout_factors(weights, request.dropout, generator)
                score_grad.mul_(dropout)
                dropped_weights = weights * dropout
            # keys are shared by several blocks, so their gradients are added up
            value_grad[at_keys] += dropped_weights.mT @ grad[at_queries]
            score_grad.sub_(torch.linalg.vecdot(weights, score_grad)[..., None]).mul_(weights)
            # the scores again: their tanh was not stored
            for part, tile in inputs.key_tiles(block):
                by_query = contiguous_copy(score_grad[..., part])
                by_key = contiguous_copy(by_query.mT) if functions.compiled else None
                query_part, key_part, energy_part = functions.gradients(tile, by_query, by_key)
                query_grad[at_queries] += query_part
                key_grad[at_keys][:, part] += key_part
                energy_grad += energy_part.sum((0, 1))
        # the factor `energy` is the same for all pairs: one product at the end instead of one for each triple
        query_grad *= inputs.energy
        key_grad *= inputs.energy
    return query_grad.to(sides[0]), key_grad.to(sides[1]), energy_grad.to(sides[2]), value_grad.to(sides[3])


def prepare_inputs(request: FlatRequest, functions: BlockFunctions) -> BlockInputs:
    """Convert to the precision of the sums, and set masked keys and values to zero: they may hold NaN."""
    dtype = sum_dtype(request)
    queries, keys, energy, values = (
        side.detach().to(dtype, copy=True) for side in (request.queries, request.keys, request.energy, request.values)
    )
    if request.key_mask is not None:
        keys, values = (side.masked_fill(~request.key_mask[..., None], 0) for side in (keys, values))
    factors = exponential_factors(queries, keys)
    return BlockInputs(request=request, factors=factors, energy=energy, values=values, functions=functions)


def contiguous_copy(tensor: Float[Tensor, "b first second"]) -> Float[Tensor, "b first second"]:
    """A copy with its own memory: torch.compile would compile again for other strides or for a view."""
    return tensor.clone(memory_format=torch.contiguous_format)


def sum_dtype(request: FlatRequest) -> torch.dtype:
    """float64 if any input has it, else float32: half precision is summed in float32."""
    dtypes = (request.queries.dtype, request.keys.dtype, request.energy.dtype, request.values.dtype)
    return torch.float64 if torch.float64 in dtypes else torch.float32


def replace_infinity(peak: Float[Tensor, "..."]) -> Float[Tensor, "..."]:
    """Zero for a query with nothing to attend to, so that its weights are exp(-inf) and not NaN."""
    return peak.masked_fill(peak == -torch.inf, 0)


def replace_zero(total: Float[Tensor, "b q 1"]) -> Float[Tensor, "b q 1"]:
    """One for a query with nothing to attend to, whose weights are zeros already."""
    return total.masked_fill(total == 0, 1)


def query_blocks(request: FlatRequest) -> Iterator[QueryBlock]:
    """Several batch elements per block while they are short, else parts of one, of nearly equal size."""
    batch_size, num_queries, num_keys = *request.queries.shape[:2], request.keys.shape[1]
    max_queries = max(FEWEST_QUERIES, BLOCK_WEIGHTS // num_keys)
    for batch in split_evenly(batch_size, max(1, max_queries // num_queries)):
        for queries in split_evenly(num_queries, max_queries):
            keys = key_range(batch, queries, request)
            if keys.start < keys.stop:
                yield QueryBlock(batch, queries, keys)


def split_evenly(length: int, max_length: int) -> Iterator[slice]:
    """Slices of nearly equal length."""
    count = -(-length // max_length)
    for index in range(count):
        yield slice(index * length // count, (index + 1) * length // count)


def key_range(batch: slice, queries: slice, request: FlatRequest) -> slice:
    """From the first to the last key that any of these queries may attend to."""
    start, stop = 0, request.keys.shape[1]
    if request.low is not None:
        start = int(batch_slice(request.low, batch)[:, queries].amin())
    if request.high is not None:
        stop = int(batch_slice(request.high, batch)[:, queries].amax())
    if request.key_mask is not None:
        # last, because it narrows the interval that the bounds leave
        indices = batch_slice(request.key_mask, batch)[:, start:stop].any(0).nonzero()
        start, stop = (start + int(indices[0]), start + int(indices[-1]) + 1) if len(indices) else (start, start)
    return slice(start, stop)


def batch_slice(mask: Tensor, batch: slice) -> Tensor:
    """The mask of these batch elements; a first dimension of 1 serves all."""
    return mask if mask.shape[0] == 1 else mask[batch]


def block_mask(block: QueryBlock, request: FlatRequest) -> Bool[Tensor, "#b #q k"] | None:
    """Which keys of the block each of its queries may attend to; None means all."""
    # absolute positions, in which the bounds are given
    positions = torch.arange(block.keys.start, block.keys.stop, device=request.keys.device)
    parts = []
    if request.low is not None:
        parts.append(positions >= batch_slice(request.low, block.batch)[:, block.queries, None])
    if request.high is not None:
        parts.append(positions < batch_slice(request.high, block.batch)[:, block.queries, None])
    if request.key_mask is not None:
        parts.append(batch_slice(request.key_mask, block.batch)[:, None, block.keys])
    if request.pair_mask is not None:
        parts.append(batch_slice(request.pair_mask, block.batch)[:, block.queries, block.keys])
    return reduce(torch.logical_and, parts) if parts else None


def dropout_generator(request: FlatRequest) -> torch.Generator | None:
    """The generator of the dropped weights, block after block; the backward pass draws the same from its seed."""
    if not request.dropout:
        return None
    assert request.seed is not None
    return torch.Generator().manual_seed(int(request.seed))


def dropout_factors(
    weights: Float[Tensor, "b q k"], dropout: float, generator: torch.Generator
) -> Float[Tensor, "b q k"]:
    """0 where a weight is dropped, else 1 / (1 - dropout)."""
    factors = torch.empty_like(weights).bernoulli_(1 - dropout, generator=generator)
    # with dropout=1 all factors are 0, and the division would make them NaN
    return factors.div_(1 - dropout) if dropout < 1 else factors
