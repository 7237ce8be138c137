"""What is made of a module once and used many times, kept outside the module and made anew when a weight changes."""

from collections.abc import Callable
from typing import Any, TypeVar
from weakref import WeakKeyDictionary

from torch import nn

READY: WeakKeyDictionary[nn.Module, tuple[tuple[tuple[int, int], ...], Any]] = WeakKeyDictionary()
"""What was made, and of which weights; a module that is gone is forgotten."""

Part = TypeVar("Part", bound=nn.Module)
Made = TypeVar("Made")


def made_once(module: Part, make: Callable[[Part], Made]) -> Made:
    """What `make` makes of a module, made anew only when its weights have changed."""
    parameters = list(module.parameters())
    if any(parameter.is_inference() for parameter in parameters):
        return make(module)
    # a tensor's version counts the changes made to it, unless it was born in inference mode
    stamp = tuple((parameter._version, parameter.data_ptr()) for parameter in parameters)
    known = READY.get(module)
    if known is not None and known[0] == stamp:
        made: Made = known[1]
        return made
    made = make(module)
    READY[module] = (stamp, made)
    return made
