"""Pytrees: tensors inside dataclasses, tuples, lists and dicts.

A decoder's state is such a tree, batch first: `select_batch` reorders any state, be it an LSTM's pair or a key-value
cache. `register_pytree` makes a dataclass transparent to torch.export, torch.func and DistributedDataParallel as well.
"""

from collections.abc import Callable
from dataclasses import fields, is_dataclass, replace
from functools import partial
from typing import Any, TypeVar

import torch
from jaxtyping import Bool, Int
from torch import Tensor

from regard.contracts import torch_private

Tree = TypeVar("Tree")
Kind = TypeVar("Kind", bound=type)

CONSTANTS = (bool, int, float, str)

Context = tuple[tuple[str, ...], tuple[tuple[str, Any], ...]]
"""Names of the fields that hold subtrees, and the other fields with their values."""


def register_pytree(kind: Kind) -> Kind:
    """Class decorator: torch's pytree functions treat the fields of this dataclass as subtrees.

    Fields annotated as a number or a string, and those declared with `field(metadata={"static": True})`, are part of
    the structure instead. So is a field that is None.
    """
    # annotations must be classes, so modules of these dataclasses do not postpone their evaluation
    static = {field.name for field in fields(kind) if field.type in CONSTANTS or field.metadata.get("static")}
    names = tuple(field.name for field in fields(kind))
    torch_private.register_node(
        kind,
        flatten=partial(_flatten, names, static),
        unflatten=partial(_unflatten, kind),
        # torch.export writes this name into files, so it must be the same in every process
        name=f"{kind.__module__}.{kind.__qualname__}",
        from_json=_context_from_json,
    )
    return kind


def _flatten(names: tuple[str, ...], static: set[str], node: Any) -> tuple[list[Any], Context]:
    values = {name: getattr(node, name) for name in names}
    # None is part of the structure: an optional tensor that is missing is no leaf
    children = {name: value for name, value in values.items() if name not in static and value is not None}
    constants = tuple((name, value) for name, value in values.items() if name not in children)
    return list(children.values()), (tuple(children), constants)


def _unflatten(kind: type, children: Any, context: Context) -> Any:
    names, constants = context
    # torch fills trees with placeholders of its own while it traces, so __init__ and its checks are skipped
    node: Any = object.__new__(kind)
    for name, value in (*zip(names, children, strict=True), *constants):
        # the dataclasses are frozen, which forbids plain assignment
        object.__setattr__(node, name, value)
    return node


def _context_from_json(dumped: Any) -> Context:
    names, constants = dumped
    # JSON has lists only, and contexts are compared as tuples
    return tuple(names), tuple((name, value) for name, value in constants)


def map_tensors(function: Callable[[Tensor], Tensor], tree: Tree) -> Tree:
    """The same tree with `function` applied to every tensor.

    A dataclass field declared with `field(metadata={"batched": False})`, or as static, stays as it is.
    """
    result: Any = _map(function, tree)
    return result


def _map(function: Callable[[Tensor], Tensor], tree: Any) -> Any:
    if isinstance(tree, Tensor):
        return function(tree)
    # is_dataclass is True for a class too
    if is_dataclass(tree) and not isinstance(tree, type):
        # static fields, and those without a batch axis, keep their values
        names = [
            field.name
            for field in fields(tree)
            if field.metadata.get("batched", True) and not field.metadata.get("static")
        ]
        # unlike `_unflatten` this runs __init__ and its checks: the fields are real tensors
        return replace(tree, **{name: _map(function, getattr(tree, name)) for name in names})
    if isinstance(tree, dict):
        return {key: _map(function, value) for key, value in tree.items()}
    # before plain tuples: a named tuple takes its fields as separate arguments
    if isinstance(tree, tuple) and hasattr(tree, "_fields"):
        return type(tree)(*(_map(function, value) for value in tree))
    if isinstance(tree, (tuple, list)):
        return type(tree)(_map(function, value) for value in tree)
    if tree is None or isinstance(tree, CONSTANTS):
        return tree
    raise TypeError(
        f"a pytree holds tensors, dataclasses, tuples, lists, dicts, numbers and None, not a "
        f"{type(tree).__name__}. Make it a dataclass."
    )


def select_batch(tree: Tree, indices: Int[Tensor, " N"]) -> Tree:
    """Batch element `indices[i]` of every tensor becomes element i; elements may be dropped and repeated."""
    return map_tensors(lambda tensor: tensor.index_select(0, indices), tree)


def where_batch(condition: Bool[Tensor, " N"], chosen: Tree, other: Tree) -> Tree:
    """Batch elements of `chosen` where the condition holds, elements of `other` elsewhere; equal shapes."""
    # both trees are visited in the same order
    others = iter(leaves(other))

    def choose(tensor: Tensor) -> Tensor:
        # (N,) becomes (N, 1, .., 1)
        return torch.where(condition.view(-1, *(1 for _ in tensor.shape[1:])), tensor, next(others))

    return map_tensors(choose, chosen)


def leaves(tree: Any) -> list[Tensor]:
    """Every tensor that `map_tensors` would visit, in order."""
    tensors: list[Tensor] = []

    def collect(tensor: Tensor) -> Tensor:
        tensors.append(tensor)
        return tensor

    map_tensors(collect, tree)
    return tensors
