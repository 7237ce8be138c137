"""What a read compares: its queries and keys in one space, and how one number comes of a pair of them.

Nearly every score lowers to a dot product, a sum through a tanh or a squared distance; the lowering names the vectors
that are really compared, after whatever projections the score has.

Shapes: H heads, Q queries, K keys, d the size compared.
"""

from dataclasses import dataclass, replace
from typing import Literal

import torch
from jaxtyping import Float
from torch import Tensor

from regard.attention import AttentionMap
from regard.contracts import Lowered, LoweredSquare, LoweredSum
from regard.studio.sites import of_row

Form = Literal["dot", "sum", "square", "unknown"]
TRIED = 8
"""Queries whose scores are made again to see whether the comparison is the right one."""


@dataclass(frozen=True, kw_only=True)
class Comparison:
    """scale q.k + bias, energy . tanh(q + k), or -1/2 |width (q - k)|^2; `unknown` has only its numbers."""

    form: Form
    queries: Float[Tensor, "H Q d"]
    keys: Float[Tensor, "H K d"]
    scale: float = 1.0
    bias: Float[Tensor, "H Q K"] | None = None
    energy: Float[Tensor, " d"] | None = None
    width: Float[Tensor, " d"] | None = None
    projected: bool = False


def compare(read: AttentionMap) -> Comparison:
    """The comparison behind a read's scores; only one that gives them again is believed."""
    with torch.inference_mode():
        found = from_lowering(read)
        if found.form == "unknown":
            return found
        few = slice(0, TRIED)
        bias = None if found.bias is None else found.bias[:, few]
        made = again(replace(found, queries=found.queries[:, few], bias=bias))
        return found if made.allclose(of_row(read.scores)[:, few], rtol=1e-4, atol=1e-5) else plain(read)


def from_lowering(read: AttentionMap) -> Comparison:
    """As the score itself lowers."""
    lowered = read.score.lower(read.queries, read.keys)
    if isinstance(lowered, str):
        return plain(read)
    projected = lowered.queries.shape != read.queries.shape or not torch.equal(lowered.queries, read.queries)
    queries, keys = of_row(lowered.queries), of_row(lowered.keys)
    if isinstance(lowered, LoweredSum):
        energy = lowered.energy.detach()
        return Comparison(form="sum", queries=queries, keys=keys, energy=energy, projected=projected)
    if isinstance(lowered, LoweredSquare):
        width = lowered.width.detach().expand(queries.shape[-1])
        return Comparison(form="square", queries=queries, keys=keys, width=width, projected=projected)
    bias = bias_of(lowered, read)
    return Comparison(form="dot", queries=queries, keys=keys, scale=lowered.scale, bias=bias, projected=projected)


def bias_of(lowered: Lowered, read: AttentionMap) -> Float[Tensor, "H Q K"] | None:
    """All that is added to the product."""
    shape = read.scores.shape
    parts = [] if lowered.key_bias is None else [lowered.key_bias[..., None, :].expand(shape)]
    parts += [] if lowered.bias is None else [lowered.bias.expand(shape)]
    return of_row(torch.stack(parts).sum(0)) if parts else None


def plain(read: AttentionMap) -> Comparison:
    """Queries and keys as they were recorded."""
    return Comparison(form="unknown", queries=of_row(read.queries), keys=of_row(read.keys))


def again(found: Comparison) -> Float[Tensor, "H Q K"]:
    """The scores, from the comparison alone."""
    queries, keys = found.queries, found.keys
    if found.form == "dot":
        scores = found.scale * (queries @ keys.mT)
        return scores if found.bias is None else scores + found.bias
    if found.form == "sum":
        assert found.energy is not None
        return (queries[:, :, None] + keys[:, None]).tanh() @ found.energy
    assert found.width is not None
    return -0.5 * ((found.width * (queries[:, :, None] - keys[:, None])) ** 2).sum(-1)
