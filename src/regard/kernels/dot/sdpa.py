"""The dot kernel on torch's scaled_dot_product_attention: flash on CPU and CUDA, linear memory.

Three differences between what we promise and what SDPA does are settled here: a bias per key travels as extra features
(a float mask that needs a gradient would form the scores), keys and values of different size are padded to one size (on
the CPU SDPA is three times slower, and quadratic in memory, when they differ; on GPUs before Hopper there is no flash
kernel for them), and a row with nothing to read is zeros.
"""

from collections.abc import Iterator
from dataclasses import replace

import torch
import torch.nn.functional as F
from jaxtyping import Bool, Float
from torch import Tensor

from regard.kernels.autograd import product_dtype
from regard.kernels.dot.reference import DotRequest
from regard.kernels.triton_support import HALF


def unsupported_reasons(read: DotRequest) -> Iterator[str]:
    """Every reason why this kernel cannot serve the read; asked for one, only one is looked for."""
    if read.values.numel() == 0 or read.queries.numel() == 0 or read.keys.numel() == 0:
        yield "there is nothing to read (an empty batch, no queries or no keys)"


def attend_sdpa(read: DotRequest) -> Float[Tensor, "... Q value"]:
    """Fused softmax attention."""
    dtype = read.values.dtype
    if is_slow_half(read):
        wide = {name: getattr(read, name).float() for name in ("queries", "keys", "values")}
        # autocast would take it back to half
        with torch.autocast("cpu", enabled=False):
            return attend_sdpa(replace(read, **wide)).to(dtype)
    leading = read.shape[:-2]
    key_leading = leading if read.group_size == 1 else (*leading[:-1], leading[-1] // read.group_size)
    queries, keys = fold_key_bias(read)
    value_size = read.values.shape[-1]
    sizes = sizes_for(queries, value_size)
    allowed, empty = readable_rows(None if read.is_plain_causal else read.allowed())
    mask = allowed
    if read.bias is not None:
        bias = read.bias if allowed is None else read.bias.masked_fill(~allowed, float("-inf"))
        mask = bias.to(queries.dtype)
    context = F.scaled_dot_product_attention(
        four_dimensional(widened(queries, sizes[0]), leading),
        four_dimensional(widened(keys, sizes[0]), key_leading),
        four_dimensional(widened(read.values, sizes[1]), key_leading),
        attn_mask=None if mask is None else four_dimensional(mask, leading, expand_last=False),
        dropout_p=read.dropout,
        is_causal=read.is_plain_causal,
        scale=read.scale,
        enable_gqa=read.group_size > 1,
    )
    if sizes[1] != value_size:
        context = context[..., :value_size]
    if len(leading) != 2:
        context = context.reshape(*leading, *context.shape[-2:])
    return context if empty is None else context.masked_fill(empty, 0.0)


def sizes_for(queries: Float[Tensor, "... Q size"], value_size: int) -> tuple[int, int]:
    """What keys and values are padded to: one size, except where cuDNN reads two as well."""
    size = queries.shape[-1]
    if queries.device.type != "cuda":
        return (max(size, value_size),) * 2
    size, value_size = (-(-each // 8) * 8 for each in (size, value_size))
    if queries.dtype.itemsize == 2 and torch.cuda.get_device_capability(queries.device) >= (9, 0):
        return size, value_size
    return (max(size, value_size),) * 2


def is_slow_half(read: DotRequest) -> bool:
    """Half precision with gradients on a CPU: its backward pass is three times slower than float32's."""
    return (
        read.queries.device.type == "cpu"
        and read.queries.dtype.itemsize == 2
        and torch.is_grad_enabled()
        and any(tensor.requires_grad for tensor in (read.queries, read.keys, read.values))
    )


def widened(tensor: Float[Tensor, "... L size"], size: int) -> Float[Tensor, "... L wide"]:
    """Zeros up to this size, and no copy where there is nothing to add."""
    missing = size - tensor.shape[-1]
    return F.pad(tensor, (0, missing)) if missing else tensor


def fold_key_bias(read: DotRequest) -> tuple[Float[Tensor, "... Q size"], Float[Tensor, "... K size"]]:
    """A bias that is the same for every query becomes features of the keys: [q, 1] . [k, bias] = q . k + bias.

    In half precision one feature would round the bias, so a second one holds what the first lost.
    """
    if read.key_bias is None:
        return read.queries, read.keys
    dtype, rounded = read.keys.dtype, product_dtype(read.keys)
    finite = torch.finfo(rounded)
    # the kernel multiplies features by the scale as well
    column = (read.key_bias / read.scale).clamp(finite.min, finite.max).unsqueeze(-1)
    parts = [column.to(rounded).to(dtype)]
    if rounded in HALF:
        parts.append((column.float() - parts[0].float()).to(dtype))
    batch = torch.broadcast_shapes(read.keys.shape[:-2], column.shape[:-2])
    columns = [part.expand(*batch, *part.shape[-2:]) for part in parts]
    keys = torch.cat([read.keys.expand(*batch, *read.keys.shape[-2:]), *columns], dim=-1)
    ones = read.queries.new_ones(*read.queries.shape[:-1], len(parts))
    return torch.cat([read.queries, ones], dim=-1), keys


def readable_rows(
    allowed: Bool[Tensor, "..."] | None,
) -> tuple[Bool[Tensor, "..."] | None, Bool[Tensor, "..."] | None]:
    """The mask with empty rows opened, and which rows those are: kernels disagree about them, we write zeros there."""
    if allowed is None:
        return None, None
    if allowed.ndim < 2:
        allowed = allowed.expand(1, *allowed.shape)
    empty = ~allowed.any(dim=-1, keepdim=True)
    return allowed | empty, empty


def four_dimensional(tensor: Tensor, leading: tuple[int, ...], *, expand_last: bool = True) -> Tensor:
    """(.., L, size) as (rows, heads, L, size): the last leading dimension is the heads, those before it one batch.

    A mask keeps its heads unexpanded (`expand_last=False`): one for all of them is enough.
    """
    if len(leading) == 2 and tensor.ndim == 4 and (not expand_last or tensor.shape[:2] == leading):
        return tensor
    missing = len(leading) + 2 - tensor.ndim
    tensor = tensor[(None,) * missing] if missing else tensor
    if len(leading) < 2:
        tensor = tensor.expand(*leading, *tensor.shape[-2:]) if expand_last else tensor
        return tensor[(None,) * (2 - len(leading))]
    heads = leading[-1] if expand_last else tensor.shape[-3]
    if not expand_last and all(size == 1 for size in tensor.shape[:-3]):
        return tensor.reshape(1, *tensor.shape[-3:])
    return tensor.expand(*leading[:-1], heads, *tensor.shape[-2:]).flatten(0, len(leading) - 2)
