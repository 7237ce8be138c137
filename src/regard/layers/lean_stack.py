"""A whole Transformer made ready for decoding: its encoder, its decoder, what the one remembers for the other.

Made once and kept outside the model as long as no weight changes. Not used while the model learns, is traced, hooked,
compiled or under autocast, for layers of an unusual kind, or for sources without a token.
"""

from collections.abc import Iterable
from dataclasses import dataclass

import torch
from jaxtyping import Float
from torch import Tensor, nn

from regard.attention.positions import Sinusoidal
from regard.attention.trace import listeners
from regard.contracts import Memory, Sequences, is_watched
from regard.kernels.linear import ReadyLinear
from regard.layers.embedding import Embedding
from regard.layers.lean import (
    LeanDecoder,
    LeanEncoder,
    Rectangle,
    lean_decoder,
    lean_encode,
    lean_encoder,
    lean_memories,
    normed,
)
from regard.layers.readout import Readout
from regard.layers.transformer import DecoderLayer, EncoderLayer

READY_PLACES = 256
"""Positions made ready; later ones are computed as they come."""


@dataclass(frozen=True, kw_only=True)
class LeanStack:
    """Weights joined and laid out, and the vectors of the first positions."""

    encoder: tuple[LeanEncoder, ...]
    encoder_norm: nn.LayerNorm | None
    across: ReadyLinear
    decoder: tuple[LeanDecoder, ...]
    readout: ReadyLinear
    places: Float[Tensor, "positions size"]


def can_be_lean(model: nn.Module) -> bool:
    """Whether nobody learns from the model, listens to it or compiles it, and its precision is its own."""
    if model.training or torch.is_grad_enabled() or torch.compiler.is_compiling() or listeners():
        return False
    return not (torch.is_autocast_enabled("cpu") or torch.is_autocast_enabled("cuda"))


def is_at_rest(model: nn.Module) -> bool:
    """Whether no part of the model drops anything or has someone waiting for its call."""
    return not (any(module.training for module in model.modules()) or is_watched(model))


def make_stack(
    encoder: Iterable[EncoderLayer],
    decoder: Iterable[DecoderLayer],
    readout: Readout,
    *,
    encoder_norm: nn.Module,
    positions: Sinusoidal,
) -> LeanStack:
    """The stack made ready; its layers are of the usual kind."""
    encoders, decoders = list(encoder), list(decoder)
    across = [layer.cross_attention for layer in decoders]
    keep = [proj for attention in across for proj in (attention.key_proj, attention.value_proj)]
    return LeanStack(
        encoder=tuple(map(lean_encoder, encoders)),
        encoder_norm=encoder_norm if isinstance(encoder_norm, nn.LayerNorm) else None,
        across=ReadyLinear.of(*keep),
        decoder=tuple(map(lean_decoder, decoders)),
        readout=ReadyLinear.of_weight(readout.weight, readout.bias),
        places=positions.encode(torch.arange(READY_PLACES, device=readout.weight.device), readout.weight.dtype),
    )


def remember(
    stack: LeanStack, source: Sequences, *, embedding: Embedding, positions: Sinusoidal
) -> tuple[tuple[Memory, ...], Float[Tensor, "B 1 1 source"] | None]:
    """What each decoder layer reads of the source, and what is added to its scores."""
    ids, rows = source.ids, rectangle(source, stack.places.dtype)
    places = stack.places[: rows.longest]
    if rows.longest > len(places):
        places = positions.encode(torch.arange(rows.longest, device=ids.device), places.dtype)
    if rows.cells is None:
        states = (embedding(ids) + places).flatten(0, 1)
    else:
        words = embedding(ids.flatten().index_select(0, rows.cells))
        states = words + places.index_select(0, rows.cells % rows.longest)
    for layer in stack.encoder:
        states = lean_encode(layer, states, rows)
    if stack.encoder_norm is not None:
        states = normed(stack.encoder_norm, states)
    num_heads = stack.decoder[0].num_heads
    heads = lean_memories(stack.across, states, rows, num_layers=len(stack.decoder), num_heads=num_heads)
    # the mask is for a readable step, should one follow
    return tuple(Memory(keys=keys, values=values, mask=source.mask) for keys, values in heads), rows.bias


def rectangle(source: Sequences, dtype: torch.dtype) -> Rectangle:
    """Where the tokens of padded rows stand."""
    num_rows, longest = source.ids.shape
    mask = source.mask
    if bool(mask.all()):
        return Rectangle(num_rows=num_rows, longest=longest, cells=None, bias=None)
    bias = torch.zeros(mask.shape, dtype=dtype, device=mask.device).masked_fill_(~mask, float("-inf"))
    cells = mask.flatten().nonzero()[:, 0]
    return Rectangle(num_rows=num_rows, longest=longest, cells=cells, bias=bias[:, None, None, :])
