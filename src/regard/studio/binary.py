"""Weights as bytes: a picture needs 256 steps, the row that someone reads needs every digit."""

import torch
from jaxtyping import Float, UInt8
from torch import Tensor

from regard.studio.errors import MissingError


def picture(weights: Float[Tensor, "Q K"]) -> tuple[bytes, float]:
    """One byte a weight, row by row, and the weight that 255 stands for."""
    high = float(weights.max()) if weights.numel() else 0.0
    steps = (weights * (255 / high if high > 0 else 0.0)).round().clamp(0, 255)
    return steps.to("cpu", torch.uint8).numpy().tobytes(), high


def exact_row(weights: Float[Tensor, "Q K"], query: int) -> bytes:
    """The weights of one query in single precision, low byte first."""
    if query >= weights.shape[0]:
        raise MissingError(f"there are {weights.shape[0]} queries, counted from 0; there is no query {query}.")
    return weights[query].to("cpu", torch.float32).numpy().astype("<f4").tobytes()


def thumbnail(weights: Float[Tensor, "Q K"], size: int) -> UInt8[Tensor, "size size"]:
    """A head at this size: the largest weight of each part, so that no peak vanishes, and 255 the largest of all."""
    if not weights.numel():
        return torch.zeros(size, size, dtype=torch.uint8)
    pooled = torch.nn.functional.adaptive_max_pool2d(weights[None].float(), size)[0]
    return (pooled * (255 / pooled.max().clamp_min(1e-30))).round().to(torch.uint8)
