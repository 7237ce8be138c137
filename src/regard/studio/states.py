"""What a language model keeps of a text, token by token, in bytes."""

from collections.abc import Iterator
from dataclasses import dataclass, fields, is_dataclass
from typing import Any

import torch
from torch import Tensor

from regard.contracts import leaves
from regard.decoding import evaluating
from regard.layers.cache import Room
from regard.studio.schema import StatePart


@dataclass(frozen=True, kw_only=True)
class Growth:
    """Bytes before the first token and after each: taken by tensors, and filled; and those of every tensor."""

    at_start: int
    taken: list[int]
    filled: list[int]
    parts: list[StatePart]


def grow(model: Any, tokens: list[int], device: torch.device) -> Growth:
    """Read token by token, as generation does, and weigh the state after each."""
    taken, filled = [], []
    parts: dict[str, tuple[list[int], list[int]]] = {}
    with evaluating(model):
        state = model.start(1)
        at_start = weight(leaves(state))
        for place, token in enumerate(tokens):
            state = model.step(torch.tensor([token], device=device), state).state
            taken.append(weight(leaves(state)))
            unfilled = 0
            for name, tensor, empty in named_leaves(state):
                # a tensor that was not there before took nothing
                shape, own = parts.setdefault(name, ([], [0] * place))
                shape[:] = tensor.shape
                own.append(weight([tensor]))
                unfilled += empty
            filled.append(taken[-1] - unfilled)
    listed = [StatePart(name=name, shape=shape, bytes=own) for name, (shape, own) in parts.items()]
    return Growth(at_start=at_start, taken=taken, filled=filled, parts=listed)


def weight(tensors: list[Tensor]) -> int:
    """Bytes of these tensors."""
    return sum(tensor.numel() * tensor.element_size() for tensor in tensors)


def named_leaves(nest: Any, name: str = "") -> Iterator[tuple[str, Tensor, int]]:
    """Every tensor that `leaves` finds, with where it stands, and how many of its bytes are room taken ahead."""
    if isinstance(nest, Tensor):
        yield name or "state", nest, 0
    elif isinstance(nest, Room):
        for part, room, filled in (("keys", nest.key_room, nest.keys), ("values", nest.value_room, nest.values)):
            if room is not None and filled is not None:
                yield joined(name, part), room, weight([room]) - weight([filled])
    elif is_dataclass(nest) and not isinstance(nest, type):
        for field in fields(nest):
            if field.metadata.get("rows", True):
                yield from named_leaves(getattr(nest, field.name), joined(name, field.name))
    elif isinstance(nest, (tuple, list)):
        for place, one in enumerate(nest):
            yield from named_leaves(one, joined(name, str(place)))
    elif isinstance(nest, dict):
        for key, one in nest.items():
            yield from named_leaves(one, joined(name, str(key)))


def joined(name: str, part: str) -> str:
    """One step further down."""
    return f"{name}.{part}" if name else part
