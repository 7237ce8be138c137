"""What is made of a module once and used many times, kept outside the module and made anew when a weight changes.

Torch counts changes made to a tensor, but not all of them: fused optimizers, replayed CUDA graphs and `.data` go
uncounted. So one number out of the middle of every parameter is looked at as well.
"""

from collections import defaultdict
from collections.abc import Callable
from dataclasses import dataclass
from threading import Lock
from typing import Any, TypeVar
from weakref import WeakKeyDictionary

import torch
from torch import Tensor, nn

Part = TypeVar("Part", bound=nn.Module)
Made = TypeVar("Made")


@dataclass(frozen=True)
class Seen:
    """A module's parameters as they were: where they lie, how often they were changed, and a number of each."""

    stamp: tuple[tuple[int, int], ...]
    probes: tuple[list[Tensor], ...]
    numbers: list[list[float]]

    @classmethod
    def of(cls, parameters: list[nn.Parameter]) -> "Seen":
        """Look at the parameters; the probes keep them in memory, so that no other takes their place."""
        kinds: dict[Any, list[Tensor]] = defaultdict(list)
        for parameter in parameters:
            if parameter.numel():
                middle = tuple(size // 2 for size in parameter.shape)
                kinds[parameter.device, parameter.dtype].append(parameter.detach()[middle])
        probes = tuple(kinds.values())
        return cls(stamps(parameters), probes, values(probes))

    def still(self, parameters: list[nn.Parameter]) -> bool:
        """Whether they are the same and unchanged."""
        return self.stamp == stamps(parameters) and self.numbers == values(self.probes)


def stamps(parameters: list[nn.Parameter]) -> tuple[tuple[int, int], ...]:
    """Where each lies, and how often torch saw it change."""
    return tuple((parameter._version, parameter.data_ptr()) for parameter in parameters)


def values(probes: tuple[list[Tensor], ...]) -> list[list[float]]:
    """The numbers looked at, on the host."""
    return [torch.stack(some).tolist() for some in probes]


READY: WeakKeyDictionary[nn.Module, tuple[Seen, Any]] = WeakKeyDictionary()
"""What was made, and of which weights; a module that is gone is forgotten."""

LOCK = Lock()


def made_once(module: Part, make: Callable[[Part], Made]) -> Made:
    """What `make` makes of a module, made anew only when its weights have changed."""
    parameters = list(module.parameters())
    if any(parameter.is_inference() for parameter in parameters):
        # torch does not count the changes of what was born in inference mode
        return make(module)
    with LOCK:
        known = READY.get(module)
        if known is not None and known[0].still(parameters):
            made: Made = known[1]
            return made
        made = make(module)
        READY[module] = (Seen.of(parameters), made)
        return made
