"""Nested tensors, which torch.nn.TransformerEncoder makes of a padded batch at inference: padded here, and back.

Shapes: N batch, H heads, L longest row.
"""

import torch
from jaxtyping import Bool, Float
from torch import Tensor


def check_nested(query: Tensor, key: Tensor, value: Tensor, *, batch_first: bool, has_masks: bool) -> None:
    """What torch's class serves: self-attention, batch first, its lengths the only mask."""
    reasons = []
    if query is not key or key is not value:
        reasons.append("query, key and value are not the same tensor")
    if not batch_first:
        reasons.append("batch_first is False, but rows of different length come batch first")
    if has_masks:
        reasons.append("a mask was given, but the lengths are the mask")
    if query.layout != torch.strided:
        reasons.append(f"its layout is {query.layout}, expected torch.strided")
    if reasons:
        raise ValueError(f"query is nested, and {'; '.join(reasons)}. Otherwise pass a padded batch and masks.")


def padded(nested: Tensor) -> tuple[Float[Tensor, "N L size"], Bool[Tensor, "N L"]]:
    """The rows padded with zeros, and True where they are real."""
    lengths = torch.tensor([row.shape[0] for row in nested.unbind()], device=nested.device)
    states = nested.to_padded_tensor(0.0)
    return states, torch.arange(states.shape[1], device=nested.device) < lengths[:, None]


def trimmed(
    states: Float[Tensor, "N L size"], weights: Float[Tensor, "N H L L"] | None, real: Bool[Tensor, "N L"]
) -> tuple[Tensor, Float[Tensor, "N H L L"] | None]:
    """The real part of each row, nested again; the weights stay padded, with zeros for queries that are padding."""
    lengths = real.sum(dim=1).tolist()
    nested = torch.nested.as_nested_tensor([row[:length] for row, length in zip(states, lengths, strict=True)])
    return nested, None if weights is None else weights * real[:, None, :, None]
