"""The additive read as one operator, which autograd, torch.compile and fake tensors know.

    attend_with_lse(read, path)    the context, and the logarithm of each query's sum of exponentials

Paths: "sine" (tensor cores, half precision), "exact" (CUDA, full precision), "blocked" (CPU); "plain" forms weights.
With the sums at hand, weights of any queries are exp(score - lse), whoever else was read.
"""

import math
from collections.abc import Iterator
from dataclasses import fields, replace
from typing import Any

import torch
from jaxtyping import Float
from torch import Tensor
from torch.autograd import forward_ad

from regard.kernels.additive import cpu as blocked
from regard.kernels.additive.exact import ExactWalk
from regard.kernels.additive.reference import AdditiveRequest, Rows, read_rows_plain, rows_of
from regard.kernels.additive.sine import SineWalk
from regard.kernels.autograd import is_mapped
from regard.kernels.triton_support import HALF, serves

WORTH_IT = {"cuda": 2**24, "cpu": 2**22}
"""Numbers that the formula would write down, from which a fused read is quicker."""
FEWEST = 8
"""Queries, or keys, from which exponentials of each side are much fewer than pairs."""
LARGEST_HIDDEN, LARGEST_VALUE = 1024, 256


def unsupported_reasons(read: AdditiveRequest) -> Iterator[str]:
    """Every reason why no fused path can serve the read."""
    *leading, num_queries, num_keys = read.shape
    device, size = read.queries.device.type, read.energy.shape[0]
    if read.queries.numel() == 0 or read.keys.numel() == 0 or read.values.numel() == 0:
        yield "there is nothing to read (an empty batch, no queries or no keys)"
    if device not in WORTH_IT:
        yield f"there is no fused path for {device}"
    elif math.prod(leading) * num_queries * num_keys * size < WORTH_IT[device]:
        yield f"the read is small: fewer than {WORTH_IT[device]:,} numbers, from which a fused path pays"
    if num_queries < FEWEST or num_keys < FEWEST:
        yield f"with fewer than {FEWEST} queries or keys there is little to share"
    given = (read.queries, read.keys, read.energy, read.values, *(() if read.mask is None else read.mask.tensors()))
    if any(is_mapped(tensor) for tensor in given):
        yield "torch.func maps over it, which a fused operator does not know"
    if forward_ad._current_level >= 0:
        yield "forward-mode differentiation asks for the formula"


def cuda_refusals(read: AdditiveRequest) -> Iterator[str]:
    """Every reason why a kernel in Triton cannot serve the read."""
    yield from unsupported_reasons(read)
    if not serves(read.queries):
        yield "it is written in Triton, for CUDA"
    elif torch.cuda.get_device_capability(read.queries.device) < (8, 0):
        yield "the GPU is older than what its tiles were made for (compute capability 8.0)"
    if read.energy.shape[0] > LARGEST_HIDDEN:
        yield f"{read.energy.shape[0]} hidden units are more than {LARGEST_HIDDEN}"
    if read.values.shape[-1] > LARGEST_VALUE:
        yield f"values of size {read.values.shape[-1]} are larger than {LARGEST_VALUE}"


def sine_unsupported_reasons(read: AdditiveRequest) -> Iterator[str]:
    """Every reason why tensor cores cannot."""
    yield from cuda_refusals(read)
    if read.queries.dtype not in HALF:
        yield f"sine features have half precision, the queries are {read.queries.dtype}"


def exact_unsupported_reasons(read: AdditiveRequest) -> Iterator[str]:
    """Every reason why exponentials on CUDA cannot."""
    yield from cuda_refusals(read)
    if read.queries.dtype not in (torch.float32, *HALF):
        yield f"its sums are float32, the queries are {read.queries.dtype}"


def blocked_unsupported_reasons(read: AdditiveRequest) -> Iterator[str]:
    """Every reason why blocks on the CPU cannot."""
    yield from unsupported_reasons(read)
    if read.queries.device.type != "cpu":
        yield f"blocks of queries are for the CPU; the queries are on {read.queries.device}"


def attend_with_lse(read: AdditiveRequest, path: str) -> tuple[Float[Tensor, "... Q value"], Float[Tensor, "... Q"]]:
    """The context, and each query's log-sum-exp of the scores it may read (-inf where there are none)."""
    device, leading = read.queries.device.type, read.shape[:-2]
    if torch.is_autocast_enabled(device):
        kind, sides = torch.get_autocast_dtype(device), ("queries", "keys", "values")
        # as torch's own autocast, which leaves float64 alone
        cast = {name: getattr(read, name).to(kind) for name in sides if getattr(read, name).dtype != torch.float64}
        read = replace(read, **cast)
    rows = rows_of(read)
    # torch's registered operators cost as much as a short read; who does not compile takes the shorter way
    registered = torch.compiler.is_compiling() or type(rows.queries) not in (Tensor, torch.nn.Parameter)
    run = _read if registered else _Read.apply
    context, lse = run(*rows.tensors(), rows.dropout, path)
    if len(leading) == 1:
        return context, lse
    return context.reshape(*leading, *context.shape[1:]), lse.reshape(*leading, -1)


@torch.library.custom_op("regard::read_additive", mutates_args=())
def _read(  # noqa: PLR0917 - an operator
    queries: Tensor,
    keys: Tensor,
    energy: Tensor,
    values: Tensor,
    low: Tensor | None,
    high: Tensor | None,
    real: Tensor | None,
    written: Tensor | None,
    seed: Tensor | None,
    dropout: float,
    path: str,
) -> tuple[Tensor, Tensor]:
    return forward(made(queries, keys, energy, values, low, high, real, written, seed, dropout), path)


@_read.register_fake
def _(queries: Tensor, keys: Tensor, energy: Tensor, values: Tensor, *others: Any) -> tuple[Tensor, Tensor]:
    context = values.new_empty(*queries.shape[:2], values.shape[2])
    kind = torch.promote_types(queries.dtype, torch.float32)
    return context, queries.new_empty(queries.shape[:2], dtype=kind)


@torch.library.custom_op("regard::read_additive_backward", mutates_args=())
def _read_backward(  # noqa: PLR0917 - an operator
    context: Tensor,
    lse: Tensor,
    grad: Tensor,
    queries: Tensor,
    keys: Tensor,
    energy: Tensor,
    values: Tensor,
    low: Tensor | None,
    high: Tensor | None,
    real: Tensor | None,
    written: Tensor | None,
    seed: Tensor | None,
    dropout: float,
    path: str,
) -> tuple[Tensor, Tensor, Tensor, Tensor]:
    return backward(
        made(queries, keys, energy, values, low, high, real, written, seed, dropout), path, context, lse, grad
    )


@_read_backward.register_fake
def _(context: Tensor, lse: Tensor, grad: Tensor, *given: Any) -> tuple[Tensor, ...]:
    return tuple(torch.empty_like(tensor, memory_format=torch.contiguous_format) for tensor in given[:4])


def _save(ctx: Any, inputs: tuple[Any, ...], output: tuple[Tensor, Tensor]) -> None:
    ctx.set_materialize_grads(False)
    ctx.mark_non_differentiable(output[1])
    ctx.save_for_backward(*output, *inputs[:9])
    ctx.rest = inputs[9:]


def _backward(ctx: Any, grad: Tensor | None, _: Tensor | None) -> tuple[Tensor | None, ...]:
    if grad is None:
        return (None,) * 11
    context, lse, *given = ctx.saved_tensors
    return (*_read_backward(context, lse, grad, *given, *ctx.rest), *(None,) * 7)


_read.register_autograd(_backward, setup_context=_save)


class _Read(torch.autograd.Function):
    """The same for eager code."""

    @staticmethod
    def forward(*inputs: Any) -> tuple[Tensor, Tensor]:
        return forward(made(*inputs[:-1]), inputs[-1])

    @staticmethod
    def setup_context(ctx: Any, inputs: tuple[Any, ...], output: tuple[Tensor, Tensor]) -> None:
        _save(ctx, inputs, output)

    @staticmethod
    def backward(ctx: Any, grad: Tensor | None, _: Tensor | None) -> tuple[Tensor | None, ...]:
        if grad is None:
            return (None,) * 11
        context, lse, *given = ctx.saved_tensors
        rows = made(*given, ctx.rest[0])
        if torch.is_grad_enabled():
            return (*again_differentiable(rows, grad), *(None,) * 7)
        return (*backward(rows, ctx.rest[1], context, lse, grad), *(None,) * 7)


def again_differentiable(rows: Rows, grad: Tensor) -> tuple[Tensor | None, ...]:
    """The gradients by the formula, for whoever wants theirs in turn (create_graph=True)."""
    if rows.dropout:
        raise RuntimeError(
            "a fused read with dropout cannot be differentiated twice. Form the weights (return_weights=True), or "
            "leave out dropout."
        )
    sides = (rows.queries, rows.keys, rows.energy, rows.values)
    wanted = [side for side in sides if side.requires_grad]
    found = iter(torch.autograd.grad(read_rows_plain(rows), wanted, grad, create_graph=True))
    return tuple(next(found) if side.requires_grad else None for side in sides)


WALKS = {"sine": SineWalk, "exact": ExactWalk}


def forward(rows: Rows, path: str) -> tuple[Tensor, Tensor]:
    """Context and log-sum-exp by this path."""
    # the precision of every product inside is chosen already
    with torch.autocast(rows.queries.device.type, enabled=False), torch.cuda.device_of(rows.queries):
        return blocked.forward(rows) if path == "blocked" else WALKS[path](rows).forward()


def backward(
    rows: Rows, path: str, context: Tensor, lse: Tensor, grad: Tensor
) -> tuple[Tensor, Tensor, Tensor, Tensor]:
    """Gradients of queries, keys, energy and values by this path."""
    with torch.autocast(rows.queries.device.type, enabled=False), torch.cuda.device_of(rows.queries):
        if path == "blocked":
            return blocked.backward(rows, context, lse, grad)
        return WALKS[path](rows).backward(context, lse, grad)


def made(*given: Any) -> Rows:
    """The rows of an operator's arguments."""
    return Rows(**dict(zip(NAMES, given, strict=True)))


NAMES = tuple(field.name for field in fields(Rows))
