"""Scores that may overflow or are NaN, which kernels of dot products answer with zeros, NaN or a wrong mean.

    |scale q . k| <= size max|q| max|k| max(|scale|, 1)

The bound is NaN where an input is, and a comparison with NaN is false. Where values can be read on the host,
`may_overflow` decides before a kernel is chosen, and such scores are formed. Elsewhere on a CPU, in compiled code and
under torch.func, `without_overflow` makes the context of the queries concerned NaN: a diverged model must not look
alive. Kernels for CUDA keep NaN by themselves.

A scale below 1 does not lower the bound, since a kernel may apply it after the sum.
"""

from dataclasses import replace

import torch
from jaxtyping import Bool, Float
from torch import Tensor

from regard.kernels.autograd import is_concrete
from regard.kernels.dot.reference import DotRequest, expand_groups


def may_overflow(
    queries: Float[Tensor, "... Q size"], keys: Float[Tensor, "... K size"], scale: float, *biases: Tensor | None
) -> bool:
    """True if a score may exceed the largest number or is NaN; False where values cannot be read on the host."""
    sides = queries.detach(), keys.detach()
    if not all(is_concrete(side) and side.numel() for side in sides):
        return False
    largest = [max(-float(low), float(high)) for low, high in map(torch.aminmax, sides)]
    bound = largest[0] * largest[1] * queries.shape[-1] * max(abs(scale), 1.0)
    for bias in biases:
        # -inf forbids a key
        if bias is not None and bias.numel() and is_concrete(bias):
            bound = bound + max(float(bias.detach().amax()), 0.0)
    # written so that a NaN bound is an overflow too
    return not bound < largest_sum(queries.dtype)


def largest_sum(dtype: torch.dtype) -> float:
    """The largest number of the sums of products; half precision is summed in float32."""
    return torch.finfo(torch.promote_types(dtype, torch.float32)).max


def without_overflow(
    request: DotRequest, allowed: Bool[Tensor, "..."] | None
) -> tuple[DotRequest, Float[Tensor, "... Q 1"] | None]:
    """The request with keys that are not finite set to 0, and a factor for the context: 1, or NaN for such a query.

    Keys set to 0 have no effect on the queries that may not attend to them; the others have NaN as their factor. The
    factor is None where the values are known on the host, or the device's kernels keep NaN.
    """
    if request.queries.device.type != "cpu" or may_be_read(request):
        return request, None
    wide = torch.promote_types(request.queries.dtype, torch.float32)
    limit = largest_sum(request.queries.dtype)
    # the largest entry of each query and of each key, NaN if one is
    query_size, key_size = (side.detach().to(wide).abs().amax(dim=-1) for side in (request.queries, request.keys))
    if request.key_bias is not None:
        # NaN and +inf become NaN; -inf forbids a key
        key_size = key_size + request.key_bias.detach().clamp(min=0.0) * 0.0
    largest_key = largest_allowed(request, key_size, allowed)
    bound = query_size[..., None] * largest_key * (request.queries.shape[-1] * max(abs(request.scale), 1.0))
    if request.bias is not None:
        bias = request.bias.detach()
        bias = bias if allowed is None else bias.masked_fill(~allowed, 0.0)
        bound = bound + bias.amax(dim=-1, keepdim=True).clamp(min=0.0)
    factor = torch.where(bound < limit, 1.0, torch.nan).to(request.values.dtype)
    is_broken = ~(key_size < limit)
    queries, keys = request.queries, request.keys.masked_fill(is_broken.unsqueeze(-1), 0.0)
    if allowed is not None:
        # what a query that may attend to nothing holds must not reach the gradient of the values
        queries = queries.masked_fill(~torch.atleast_2d(allowed).any(dim=-1, keepdim=True), 0.0)
    key_bias = None if request.key_bias is None else request.key_bias.masked_fill(is_broken, 0.0)
    return replace(request, queries=queries, keys=keys, key_bias=key_bias), factor


def may_be_read(request: DotRequest) -> bool:
    """True if `may_overflow` has decided: all that the scores are made of can be read on the host."""
    return (
        is_concrete(request.queries)
        and is_concrete(request.keys)
        and (request.key_bias is None or is_concrete(request.key_bias))
        and (request.bias is None or is_concrete(request.bias))
    )


def largest_allowed(
    request: DotRequest, key_size: Float[Tensor, "... K"], allowed: Bool[Tensor, "..."] | None
) -> Float[Tensor, "... Q 1"]:
    """The size of the largest key that each query may attend to, or a bound of it."""
    # (.., 1, K) for every query head
    sizes = expand_groups(key_size.unsqueeze(-2), request.group_size)
    if request.is_plain_causal:
        # sums bound the maxima over the keys up to each query, and exporters know them
        return sizes.cumsum(dim=-1).transpose(-2, -1)
    if allowed is not None:
        # what is not allowed must not be multiplied, since 0 times NaN is NaN
        sizes = torch.where(allowed, sizes, 0.0)
    return sizes.amax(dim=-1, keepdim=True)
