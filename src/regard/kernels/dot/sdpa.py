"""Dot attention by torch's scaled_dot_product_attention (SDPA): flash kernels on CPU and CUDA, linear memory.

Differences between our contract and SDPA are settled here:

- A bias per key becomes extra features: as a float mask that needs a gradient it would make SDPA form the scores.
- Keys and values of different size are padded to one size: on the CPU SDPA is three times slower, and quadratic in
  memory, when they differ; on GPUs before Hopper there is no flash kernel for them.
- A query with nothing to attend to gets zeros.
- A scale of 0 or below is folded into the queries: SDPA multiplies the -inf of its causal mask by the scale.
- NaN stays NaN, also where a kernel would return zeros for scores that are all NaN (overflow.py).
- The weight of a single key is 1 whatever its score. Kernels subtract two roundings of one number in the gradient of
  that score, and leave noise where it is 0; here such a query is multiplied by 0, which makes it exactly 0.

Dao et al. 2022. https://arxiv.org/abs/2205.14135
"""

import math
from collections.abc import Iterator
from dataclasses import replace

import torch
import torch.nn.functional as F
from jaxtyping import Bool, Float
from torch import Tensor

from regard.kernels.autograd import product_dtype
from regard.kernels.dot.overflow import without_overflow
from regard.kernels.dot.reference import DotRequest, with_positive_scale
from regard.kernels.triton_support import HALF


def unsupported_reasons(request: DotRequest) -> Iterator[str]:
    """Every reason why this kernel cannot serve the request; an iterator, because one reason is often enough."""
    if request.values.numel() == 0 or request.queries.numel() == 0 or request.keys.numel() == 0:
        yield "there is nothing to attend to (an empty batch, no queries or no keys)"


def attend_sdpa(request: DotRequest) -> Float[Tensor, "... Q value"]:
    """Fused softmax attention."""
    dtype = request.values.dtype
    if is_slow_half(request):
        wide = {name: getattr(request, name).float() for name in ("queries", "keys", "values")}
        # autocast would convert it back to half precision
        with torch.autocast("cpu", enabled=False):
            return attend_sdpa(replace(request, **wide)).to(dtype)
    leading = request.shape[:-2]
    key_leading = leading if request.group_size == 1 else (*leading[:-1], leading[-1] // request.group_size)
    # the plain triangle is an option of SDPA and needs no mask tensor
    allowed = None if request.is_plain_causal else request.allowed()
    request, factor = without_overflow(with_positive_scale(request), allowed)
    queries, keys = fold_key_bias(request)
    # after the folding: the bias of a key is part of its score
    queries = without_single_keys(request, queries, allowed)
    value_size = request.values.shape[-1]
    key_width, value_width = choose_sizes(queries, value_size)
    allowed, empty = open_empty_rows(allowed)
    mask = allowed
    if request.bias is not None:
        bias = request.bias if allowed is None else request.bias.masked_fill(~allowed, float("-inf"))
        mask = bias.to(queries.dtype)
    context = F.scaled_dot_product_attention(
        to_four_dimensions(pad_size(queries, key_width), leading),
        to_four_dimensions(pad_size(keys, key_width), key_leading),
        to_four_dimensions(pad_size(request.values, value_width), key_leading),
        attn_mask=None if mask is None else to_four_dimensions(mask, leading, expand_last=False),
        dropout_p=request.dropout,
        is_causal=request.is_plain_causal,
        scale=request.scale,
        enable_gqa=request.group_size > 1,
    )
    # views only where they are needed: each adds to the time of a short call
    if value_width != value_size:
        context = context[..., :value_size]
    if len(leading) != 2:
        context = context.reshape(*leading, *context.shape[-2:])
    if factor is not None:
        # 1 for an empty row: its gradient is 0, and 0 times NaN would be NaN
        context = context * (factor if empty is None else factor.masked_fill(empty, 1.0))
    return context if empty is None else context.masked_fill(empty, 0.0)


def without_single_keys(
    request: DotRequest, queries: Float[Tensor, "... Q size"], allowed: Bool[Tensor, "..."] | None
) -> Float[Tensor, "... Q size"]:
    """Queries that may attend to one key are multiplied by 0, which changes no weight; only where gradients flow."""
    scored = (queries, request.keys, request.key_bias)
    if not (torch.is_grad_enabled() and any(tensor is not None and tensor.requires_grad for tensor in scored)):
        return queries
    if request.keys.shape[-2] == 1:
        return queries * 0.0
    if request.is_plain_causal:
        # the first query of the triangle
        factor = queries.new_ones(queries.shape[-2], 1)
        factor[0] = 0.0
    elif allowed is not None and allowed.ndim > 1 and allowed.shape[-1] > 1:
        factor = (allowed.sum(dim=-1, keepdim=True) != 1).to(queries.dtype)
    else:
        return queries
    return queries * factor


def choose_sizes(queries: Float[Tensor, "... Q size"], value_size: int) -> tuple[int, int]:
    """The sizes to which keys and values are padded: equal, except where cuDNN supports two sizes."""
    size = queries.shape[-1]
    if queries.device.type != "cuda":
        return (max(size, value_size),) * 2
    # flash kernels on CUDA need multiples of 8
    size, value_size = (-(-each // 8) * 8 for each in (size, value_size))
    if queries.dtype.itemsize == 2 and torch.cuda.get_device_capability(queries.device) >= (9, 0):
        return size, value_size
    return (max(size, value_size),) * 2


def is_slow_half(request: DotRequest) -> bool:
    """Half precision with gradients on a CPU: its backward pass is three times slower than float32's."""
    return (
        request.queries.device.type == "cpu"
        and request.queries.dtype.itemsize == 2
        and torch.is_grad_enabled()
        and any(tensor.requires_grad for tensor in (request.queries, request.keys, request.values))
    )


def pad_size(tensor: Float[Tensor, "... L size"], size: int) -> Float[Tensor, "... L wide"]:
    """Append zeros up to this size; no copy where there is nothing to append."""
    missing = size - tensor.shape[-1]
    return F.pad(tensor, (0, missing)) if missing else tensor


def fold_key_bias(request: DotRequest) -> tuple[Float[Tensor, "... Q size"], Float[Tensor, "... K size"]]:
    """A bias that is the same for every query becomes features of the keys: [q, 1] . [k, bias] = q . k + bias.

    In half precision one feature would round the bias, so a second one holds the remainder. The scale, by which the
    kernel multiplies features as well, is undone by the queries' feature but for a factor from 1/2 to 2: a power of
    two, so that the product with it is exact.
    """
    if request.key_bias is None:
        return request.queries, request.keys
    dtype, product = request.keys.dtype, product_dtype(request.keys)
    limits = torch.finfo(product)
    feature = 1.0 if request.scale == 1.0 else 2.0 ** min(max(-round(math.log2(request.scale)), -14), 15)
    # the bias may have fewer digits than the keys
    key_bias = request.key_bias.to(torch.promote_types(request.key_bias.dtype, torch.float32))
    # clamped, because a large bias would overflow half precision, and infinity minus infinity in the remainder is NaN
    column = (key_bias / (request.scale * feature)).clamp(limits.min, limits.max).unsqueeze(-1)
    parts = [column.to(product).to(dtype)]
    if product in HALF:
        parts.append((column.float() - parts[0].float()).to(dtype))
    batch = torch.broadcast_shapes(request.keys.shape[:-2], column.shape[:-2])
    columns = [part.expand(*batch, *part.shape[-2:]) for part in parts]
    keys = torch.cat([request.keys.expand(*batch, *request.keys.shape[-2:]), *columns], dim=-1)
    features = request.queries.new_full((*request.queries.shape[:-1], len(parts)), feature)
    return torch.cat([request.queries, features], dim=-1), keys


def open_empty_rows(
    allowed: Bool[Tensor, "..."] | None,
) -> tuple[Bool[Tensor, "..."] | None, Bool[Tensor, "..."] | None]:
    """The mask with empty rows opened, and which rows those are.

    Kernels disagree about a query with nothing to attend to (zeros, NaN or a mean); the caller fills in zeros.
    """
    if allowed is None:
        return None, None
    if allowed.ndim < 2:
        allowed = allowed.expand(1, *allowed.shape)
    empty = ~allowed.any(dim=-1, keepdim=True)
    return allowed | empty, empty


def to_four_dimensions(tensor: Tensor, leading: tuple[int, ...], *, expand_last: bool = True) -> Tensor:
    """(.., L, size) as (batch, heads, L, size): the last leading dimension is the heads, those before it one batch.

    A mask is not expanded over its heads (`expand_last=False`): one for all of them is enough.
    """
    if len(leading) == 2 and tensor.ndim == 4 and (not expand_last or tensor.shape[:2] == leading):
        return tensor
    missing = len(leading) + 2 - tensor.ndim
    tensor = tensor[(None,) * missing] if missing else tensor
    if len(leading) < 2:
        # expanded, not broadcast: SDPA forms the scores of keys whose leading dimensions differ from the queries'
        tensor = tensor.expand(*leading, *tensor.shape[-2:]) if expand_last else tensor
        return tensor[(None,) * (2 - len(leading))]
    heads = leading[-1] if expand_last else tensor.shape[-3]
    if not expand_last and all(size == 1 for size in tensor.shape[:-3]):
        return tensor.reshape(1, *tensor.shape[-3:])
    return tensor.expand(*leading[:-1], heads, *tensor.shape[-2:]).flatten(0, len(leading) - 2)
