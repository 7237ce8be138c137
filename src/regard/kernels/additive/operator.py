"""Fused additive attention as one operator for autograd, torch.compile and fake tensors.

    attend_with_lse(request, path)    the context, and the log-sum-exp of each query's scores

Paths: "sine" (CUDA tensor cores, half precision), "exact" (CUDA, full precision) and "blocked" (CPU). The weights of
any chosen queries are exp(score - lse), without those of the others.
"""

import math
from collections.abc import Iterator
from dataclasses import fields, replace
from typing import Any

import torch
from jaxtyping import Float
from torch import Tensor

from regard.contracts import torch_private
from regard.kernels.additive import cpu as blocked
from regard.kernels.additive.exact import ExactAttention
from regard.kernels.additive.reference import AdditiveRequest, FlatRequest, attend_flat_plain, flatten_request
from regard.kernels.additive.sine import SineAttention
from regard.kernels.autograd import is_mapped
from regard.kernels.triton_support import HALF, serves

WORTH_IT = {"cuda": 2**24, "cpu": 2**22}
"""Triples of query, key and hidden unit from which a fused path is faster than the formula."""
FEWEST = 8
"""Queries, or keys, from which computing the exponentials per side saves work over computing them per pair."""
LARGEST_HIDDEN, LARGEST_VALUE = 1024, 256


def unsupported_reasons(request: AdditiveRequest) -> Iterator[str]:
    """Every reason why no fused path can serve the request."""
    *leading, num_queries, num_keys = request.shape
    device, size = request.queries.device.type, request.energy.shape[0]
    if request.queries.numel() == 0 or request.keys.numel() == 0 or request.values.numel() == 0:
        yield "there is nothing to attend to (an empty batch, no queries or no keys)"
    if device not in WORTH_IT:
        yield f"there is no fused path for {device}"
    elif math.prod(leading) * num_queries * num_keys * size < WORTH_IT[device]:
        yield f"the input is small: below {WORTH_IT[device]:,} triples of query, key and hidden unit no fused path pays"
    # such as a decoding step, which has as many exponentials as pairs
    if num_queries < FEWEST or num_keys < FEWEST:
        yield f"with fewer than {FEWEST} queries or keys there is little to share"
    masks = () if request.mask is None else request.mask.tensors()
    # vmap replaces tensors by wrappers, which the operator cannot unwrap
    if any(is_mapped(tensor) for tensor in (request.queries, request.keys, request.energy, request.values, *masks)):
        yield "torch.func transforms it, which the fused operator does not support"
    if torch_private.forward_mode_active():
        yield "the fused operator has no forward-mode derivative"


def cuda_unsupported_reasons(request: AdditiveRequest) -> Iterator[str]:
    """Every reason why no Triton kernel can serve the request."""
    yield from unsupported_reasons(request)
    if not serves(request.queries):
        yield "it is written in Triton, for CUDA"
    elif torch.cuda.get_device_capability(request.queries.device) < (8, 0):
        yield "the GPU is older than compute capability 8.0, for which its tiles were chosen"
    if request.energy.shape[0] > LARGEST_HIDDEN:
        yield f"{request.energy.shape[0]} hidden units are more than {LARGEST_HIDDEN}"
    if request.values.shape[-1] > LARGEST_VALUE:
        yield f"values of size {request.values.shape[-1]} are larger than {LARGEST_VALUE}"


def sine_unsupported_reasons(request: AdditiveRequest) -> Iterator[str]:
    """Every reason why the sine path cannot serve the request."""
    yield from cuda_unsupported_reasons(request)
    if request.queries.dtype not in HALF:
        yield f"sine features have half precision, the queries are {request.queries.dtype}"


def exact_unsupported_reasons(request: AdditiveRequest) -> Iterator[str]:
    """Every reason why the exact path cannot serve the request."""
    yield from cuda_unsupported_reasons(request)
    if request.queries.dtype not in (torch.float32, *HALF):
        yield f"its sums are float32, the queries are {request.queries.dtype}"


def blocked_unsupported_reasons(request: AdditiveRequest) -> Iterator[str]:
    """Every reason why the CPU path cannot serve the request."""
    yield from unsupported_reasons(request)
    if request.queries.device.type != "cpu":
        yield f"blocks of queries are for the CPU; the queries are on {request.queries.device}"


def attend_with_lse(request: AdditiveRequest, path: str) -> tuple[Float[Tensor, "... Q value"], Float[Tensor, "... Q"]]:
    """The context, and each query's log-sum-exp over the scores that the mask allows (-inf where it allows none)."""
    device, leading = request.queries.device.type, request.shape[:-2]
    # custom operators are not on autocast's lists, so the cast is made here
    if torch.is_autocast_enabled(device):
        dtype, sides = torch.get_autocast_dtype(device), ("queries", "keys", "values")
        # like torch's own autocast, which leaves float64 unchanged
        cast = {
            name: getattr(request, name).to(dtype) for name in sides if getattr(request, name).dtype != torch.float64
        }
        request = replace(request, **cast)
    flat = flatten_request(request)
    # dispatch through torch's registered operators costs as much as a short call, so eager code bypasses it
    is_registered = torch.compiler.is_compiling() or type(flat.queries) not in (Tensor, torch.nn.Parameter)
    run = _attend if is_registered else _Attend.apply
    context, lse = run(*flat.tensors(), flat.dropout, path)
    if len(leading) == 1:
        return context, lse
    return context.reshape(*leading, *context.shape[1:]), lse.reshape(*leading, -1)


@torch.library.custom_op("regard::attend_additive", mutates_args=())
def _attend(  # noqa: PLR0917 - an operator
    queries: Tensor,
    keys: Tensor,
    energy: Tensor,
    values: Tensor,
    low: Tensor | None,
    high: Tensor | None,
    key_mask: Tensor | None,
    pair_mask: Tensor | None,
    seed: Tensor | None,
    dropout: float,
    path: str,
) -> tuple[Tensor, Tensor]:
    request = build_request(queries, keys, energy, values, low, high, key_mask, pair_mask, seed, dropout)
    return forward(request, path)


@_attend.register_fake
def _(queries: Tensor, keys: Tensor, energy: Tensor, values: Tensor, *others: Any) -> tuple[Tensor, Tensor]:
    # shapes and types of the results, for compilers: nothing is computed
    context = values.new_empty(*queries.shape[:2], values.shape[2])
    dtype = torch.promote_types(queries.dtype, torch.float32)
    return context, queries.new_empty(queries.shape[:2], dtype=dtype)


@torch.library.custom_op("regard::attend_additive_backward", mutates_args=())
def _attend_backward(  # noqa: PLR0917 - an operator
    context: Tensor,
    lse: Tensor,
    grad: Tensor,
    queries: Tensor,
    keys: Tensor,
    energy: Tensor,
    values: Tensor,
    low: Tensor | None,
    high: Tensor | None,
    key_mask: Tensor | None,
    pair_mask: Tensor | None,
    seed: Tensor | None,
    dropout: float,
    path: str,
) -> tuple[Tensor, Tensor, Tensor, Tensor]:
    request = build_request(queries, keys, energy, values, low, high, key_mask, pair_mask, seed, dropout)
    return backward(request, path, context, lse, grad)


@_attend_backward.register_fake
def _(context: Tensor, lse: Tensor, grad: Tensor, *inputs: Any) -> tuple[Tensor, ...]:
    return tuple(torch.empty_like(tensor, memory_format=torch.contiguous_format) for tensor in inputs[:4])


def _save_for_backward(ctx: Any, inputs: tuple[Any, ...], output: tuple[Tensor, Tensor]) -> None:
    # None instead of a tensor of zeros where the context has no gradient
    ctx.set_materialize_grads(False)
    # lse serves to rebuild weights for inspection; gradients go through the context
    ctx.mark_non_differentiable(output[1])
    ctx.save_for_backward(*output, *inputs[:9])
    ctx.options = inputs[9:]


def _backward(ctx: Any, grad: Tensor | None, _: Tensor | None) -> tuple[Tensor | None, ...]:
    if grad is None:
        return (None,) * 11
    context, lse, *inputs = ctx.saved_tensors
    return (*_attend_backward(context, lse, grad, *inputs, *ctx.options), *(None,) * 7)


_attend.register_autograd(_backward, setup_context=_save_for_backward)


class _Attend(torch.autograd.Function):
    """The same operator for eager code, without torch's dispatch of registered operators."""

    @staticmethod
    def forward(*inputs: Any) -> tuple[Tensor, Tensor]:
        return forward(build_request(*inputs[:-1]), inputs[-1])

    @staticmethod
    def setup_context(ctx: Any, inputs: tuple[Any, ...], output: tuple[Tensor, Tensor]) -> None:
        _save_for_backward(ctx, inputs, output)

    @staticmethod
    def backward(ctx: Any, grad: Tensor | None, _: Tensor | None) -> tuple[Tensor | None, ...]:
        if grad is None:
            return (None,) * 11
        context, lse, *inputs = ctx.saved_tensors
        request = build_request(*inputs, ctx.options[0])
        # grad mode is on inside backward only with create_graph=True
        if torch.is_grad_enabled():
            return (*plain_gradients(request, grad), *(None,) * 7)
        return (*backward(request, ctx.options[1], context, lse, grad), *(None,) * 7)


def plain_gradients(request: FlatRequest, grad: Tensor) -> tuple[Tensor | None, ...]:
    """The gradients by the formula, which can be differentiated again (create_graph=True)."""
    if request.dropout:
        raise RuntimeError(
            f"fused additive attention with dropout={request.dropout} cannot be differentiated twice. Form the weights "
            f"(return_weights=True), or set dropout=0."
        )
    sides = (request.queries, request.keys, request.energy, request.values)
    # autograd refuses inputs that need no gradient
    inputs = [side for side in sides if side.requires_grad]
    grads = iter(torch.autograd.grad(attend_flat_plain(request), inputs, grad, create_graph=True))
    return tuple(next(grads) if side.requires_grad else None for side in sides)


CHUNKED_PATHS = {"sine": SineAttention, "exact": ExactAttention}


def forward(request: FlatRequest, path: str) -> tuple[Tensor, Tensor]:
    """Context and log-sum-exp by this path."""
    # autocast off: each path chooses the precision of its own products
    with torch.autocast(request.queries.device.type, enabled=False), torch.cuda.device_of(request.queries):
        return blocked.forward(request) if path == "blocked" else CHUNKED_PATHS[path](request).forward()


def backward(
    request: FlatRequest, path: str, context: Tensor, lse: Tensor, grad: Tensor
) -> tuple[Tensor, Tensor, Tensor, Tensor]:
    """Gradients of queries, keys, energy and values by this path."""
    with torch.autocast(request.queries.device.type, enabled=False), torch.cuda.device_of(request.queries):
        if path == "blocked":
            return blocked.backward(request, context, lse, grad)
        return CHUNKED_PATHS[path](request).backward(context, lse, grad)


def build_request(*arguments: Any) -> FlatRequest:
    """The flat request of an operator's arguments."""
    return FlatRequest(**dict(zip(FIELDS, arguments, strict=True)))


FIELDS = tuple(field.name for field in fields(FlatRequest))
