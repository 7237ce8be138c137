"""All of attention in one PyTorch package: score, align, aggregate."""

from importlib import import_module
from importlib.util import find_spec
from typing import TYPE_CHECKING, Any

from regard._utils import VERSION

if TYPE_CHECKING:
    from regard.attention import Attention, MultiHeadAttention, attend, change, trace
    from regard.contracts import PositionInfo
    from regard.display import show
    from regard.tasks import load

__version__ = VERSION

__all__ = ["Attention", "MultiHeadAttention", "PositionInfo", "attend", "change", "load", "show", "trace"]

_PACKAGES = {
    "Attention": "regard.attention",
    "PositionInfo": "regard.contracts",
    "MultiHeadAttention": "regard.attention",
    "attend": "regard.attention",
    "change": "regard.attention",
    "load": "regard.tasks",
    "show": "regard.display",
    "trace": "regard.attention",
}


def __getattr__(name: str) -> Any:
    # imported at first use: torch takes a second, which `regard --help` does without
    if name in _PACKAGES:
        globals()[name] = getattr(import_module(_PACKAGES[name]), name)
        return globals()[name]
    if not name.startswith("_") and find_spec(f"regard.{name}") is not None:
        return import_module(f"regard.{name}")
    raise AttributeError(f"module 'regard' has no attribute {name!r}")


def __dir__() -> list[str]:
    return sorted({*globals(), *__all__})
