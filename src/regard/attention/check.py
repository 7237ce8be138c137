"""Errors that say which argument is wrong, what it is, and the way out."""

import torch
from torch import Tensor


def check_size(name: str, tensor: Tensor, expected: int, owner: str) -> None:
    """The last dimension of `tensor` must be what `owner` was built for."""
    if tensor.shape[-1] != expected:
        raise ValueError(
            f"{name} have size {tensor.shape[-1]} (shape {tuple(tensor.shape)}), but {owner} was built for "
            f"size {expected}."
        )


def check_equal_sizes(queries: Tensor, keys: Tensor, owner: str) -> None:
    """A score without parameters compares like with like."""
    if queries.shape[-1] != keys.shape[-1]:
        raise ValueError(
            f"keys have size {keys.shape[-1]} but {owner} compares equal sizes: queries have {queries.shape[-1]}. "
            f"Use General(query_size={queries.shape[-1]}, key_size={keys.shape[-1]}) or project first."
        )


def check_parts(score: object, align: object) -> None:
    """Variants are objects: an instance, not a class or a name."""
    for name, part, telling, example in (
        ("score", score, "lower", "ScaledDot()"),
        ("align", align, "ignores_row_constant", "Softmax()"),
    ):
        # isinstance of a protocol would cost more than a short attention
        if isinstance(part, type) or not (callable(part) and hasattr(part, telling)):
            given = f"the class {part.__name__}" if isinstance(part, type) else repr(part)
            raise ValueError(f"{name} is {given}, expected an object such as {example}.")


def check_inputs(queries: Tensor, keys: Tensor, values: Tensor) -> None:
    """Queries, keys and values that can be read together."""
    named = {"queries": queries, "keys": keys, "values": values}
    for name, tensor in named.items():
        if not isinstance(tensor, Tensor):
            raise ValueError(f"{name} must be a tensor of shape (.., length, size), not {type(tensor).__name__}.")
        if tensor.ndim < 2:
            raise ValueError(f"{name} have shape {tuple(tensor.shape)}, expected (.., length, size).")
        if not tensor.is_floating_point():
            raise ValueError(f"{name} have dtype {tensor.dtype}, expected a floating-point dtype. Embed tokens first.")
        if tensor.device != queries.device:
            raise ValueError(
                f"{name} are on {tensor.device} but queries are on {queries.device}. "
                f"Move them with {name}.to(queries.device)."
            )
        # under autocast the projections may differ from what was not projected; torch's own operations settle it
        if tensor.dtype != queries.dtype and not torch.is_autocast_enabled(queries.device.type):
            raise ValueError(
                f"{name} have dtype {tensor.dtype} but queries have {queries.dtype}. "
                f"Convert them with {name}.to(queries.dtype)."
            )
    if keys.shape[-2] != values.shape[-2]:
        raise ValueError(
            f"keys have shape {tuple(keys.shape)} and values {tuple(values.shape)}: {keys.shape[-2]} keys but "
            f"{values.shape[-2]} values. Each key needs one value."
        )
    if queries.shape[:-2] == keys.shape[:-2] == values.shape[:-2]:
        return
    try:
        torch.broadcast_shapes(queries.shape[:-2], keys.shape[:-2], values.shape[:-2])
    except RuntimeError:
        raise ValueError(
            f"leading dimensions do not broadcast: queries {tuple(queries.shape)}, keys {tuple(keys.shape)}, "
            f"values {tuple(values.shape)}. Expected (.., length, size) with equal (or size 1) leading dimensions."
        ) from None


def check_probability(name: str, value: float) -> None:
    """A probability that leaves something."""
    if not 0.0 <= value < 1.0:
        raise ValueError(f"{name} is {value}, expected a probability from 0 up to, not including, 1.")
