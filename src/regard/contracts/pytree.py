"""Nests of tensors: dataclasses, tuples, lists, dicts and None, with batch-first tensors as leaves.

One `select_batch` reorders a decoder's state, so that an LSTM pair and a key-value cache go through the same search.
"""

from collections.abc import Callable
from dataclasses import fields, is_dataclass, replace
from typing import Any, TypeVar

import torch
from jaxtyping import Bool, Int
from torch import Tensor

Nest = TypeVar("Nest")


def map_tensors(change: Callable[[Tensor], Tensor], nest: Nest) -> Nest:
    """The same nest with `change` applied to every tensor in it."""
    result: Any = _map(change, nest)
    return result


def _map(change: Callable[[Tensor], Tensor], nest: Any) -> Any:
    if isinstance(nest, Tensor):
        return change(nest)
    if is_dataclass(nest) and not isinstance(nest, type):
        batched = [field for field in fields(nest) if field.metadata.get("rows", True)]
        return replace(nest, **{field.name: _map(change, getattr(nest, field.name)) for field in batched})
    if isinstance(nest, dict):
        return {key: _map(change, value) for key, value in nest.items()}
    if isinstance(nest, tuple) and hasattr(nest, "_fields"):
        return type(nest)(*(_map(change, value) for value in nest))
    if isinstance(nest, (tuple, list)):
        return type(nest)(_map(change, value) for value in nest)
    if nest is None or isinstance(nest, (bool, int, float, str)):
        return nest
    raise ValueError(
        f"a nest holds tensors, dataclasses, tuples, lists, dicts, numbers and None, but here is a "
        f"{type(nest).__name__}. Make it a dataclass."
    )


def select_batch(nest: Nest, rows: Int[Tensor, " N"]) -> Nest:
    """Row `rows[i]` of every tensor becomes row i: beam search keeps, drops and repeats hypotheses with it.

    A dataclass field that is not batch-first says `field(metadata={"rows": False})` and stays as it is.
    """
    return map_tensors(lambda tensor: tensor.index_select(0, rows), nest)


def where_batch(condition: Bool[Tensor, " N"], chosen: Nest, other: Nest) -> Nest:
    """Rows of the one nest where the condition holds, rows of the other elsewhere; both are of one shape."""
    others = iter(leaves(other))

    def choose(tensor: Tensor) -> Tensor:
        return torch.where(condition.view(-1, *(1 for _ in tensor.shape[1:])), tensor, next(others))

    return map_tensors(choose, chosen)


def leaves(nest: Any) -> list[Tensor]:
    """Every tensor of a nest that `map_tensors` would change, in order."""
    found: list[Tensor] = []

    def collect(tensor: Tensor) -> Tensor:
        found.append(tensor)
        return tensor

    map_tensors(collect, nest)
    return found
