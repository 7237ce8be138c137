"""Attention in PyTorch: score, align, aggregate.

The names below and the subpackages are imported when they are first used (PEP 562), so `import regard` takes no longer
than `import torch`.
"""

from importlib import import_module
from types import ModuleType
from typing import TYPE_CHECKING, Any

# type checkers do not run __getattr__, so the names are imported for them
if TYPE_CHECKING:
    from regard._api import load, which_backend
    from regard.attention import Attention, MultiHeadAttention, attend, intervene, trace
    from regard.contracts import PositionInfo
    from regard.display import show

    __version__: str

__all__ = [
    "Attention",
    "MultiHeadAttention",
    "PositionInfo",
    "attend",
    "intervene",
    "load",
    "show",
    "trace",
    "which_backend",
]

_MODULES = {
    "Attention": "attention",
    "MultiHeadAttention": "attention",
    "PositionInfo": "contracts",
    "attend": "attention",
    "intervene": "attention",
    "load": "_api",
    "show": "display",
    "trace": "attention",
    "which_backend": "_api",
}
"""Name -> the module that defines it."""


def __getattr__(name: str) -> Any:
    if name in _MODULES:
        value = getattr(import_module(f"regard.{_MODULES[name]}"), name)
    elif name == "__version__":
        value = import_module("regard._utils").VERSION
    else:
        # not cached here: importing a subpackage sets it as an attribute of the package
        return _subpackage(name)
    # the next access finds the name without this function
    globals()[name] = value
    return value


def _subpackage(name: str) -> ModuleType:
    module = f"regard.{name}"
    try:
        return import_module(module)
    except ModuleNotFoundError as error:
        # another missing module is an error of its own: an extra that is not installed
        if error.name != module:
            raise
        raise AttributeError(f"module 'regard' has no attribute {name!r}") from None


def __dir__() -> list[str]:
    return [*__all__, "__version__"]
