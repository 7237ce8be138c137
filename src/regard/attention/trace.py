"""Tracing: every attention of ours inside any model, by module path, without the model's knowing.

    with trace(model) as maps:
        model(inputs)
    maps["encoder.layers.0.attention"][0].weights

Inside the block attention forms its weights, so fused kernels wait outside; results agree to rounding. Nothing is kept
on the modules: hooks tell where the model is, and `attend` hands what it computed to the trace that is listening.
"""

from abc import ABC, abstractmethod
from collections.abc import Callable, Iterator, Mapping
from contextlib import contextmanager
from dataclasses import dataclass, field, replace
from threading import Lock
from typing import Any, TypeVar

import torch
from jaxtyping import Bool, Float
from torch import Tensor, nn

from regard.contracts import Align, Look, Score, active_recorders, recording, unwrap


@dataclass(frozen=True, kw_only=True)
class AttentionMap:
    """One read: what was asked, what it was compared with, how well, how much, and what came back; detached.

    The keys are as the score prepared them; `allowed` is the mask as it broadcasts to the scores. Score, alignment and
    look are those that made the weights, so that the read can be made again with one of them exchanged.
    """

    queries: Float[Tensor, "... Q query"]
    keys: Float[Tensor, "... K key"]
    values: Float[Tensor, "... K value"]
    scores: Float[Tensor, "... Q K"]
    weights: Float[Tensor, "... Q K"]
    context: Float[Tensor, "... Q value"]
    allowed: Bool[Tensor, "..."] | None
    score: Score
    align: Align
    look: Look

    def detached(self) -> "AttentionMap":
        """The same numbers, without the graph that made them."""
        made: dict[str, Any] = {name: value.detach() for name, value in vars(self).items() if isinstance(value, Tensor)}
        asked = self.look.queries
        look = replace(self.look, queries=None if asked is None else asked.detach())
        return replace(self, look=look, **made)


Change = Callable[[str, AttentionMap], Tensor | None]
"""From a module path and the read made there to the weights that are to be used instead; None leaves them."""


@dataclass(eq=False)
class Listener(ABC):
    """Who hears of every read of a model, and where the model is."""

    _where: list[str] = field(default_factory=list)

    @property
    def where(self) -> str:
        """The path of the module that is running; '' outside any."""
        return self._where[-1] if self._where else ""

    def enter(self, path: str) -> None:
        """The module at `path` begins."""
        self._where.append(path)

    def leave(self, path: str) -> None:
        """The module at `path` ends, and whatever it left behind; one that never began is not there to end."""
        if path in self._where:
            del self._where[len(self._where) - 1 - self._where[::-1].index(path) :]

    @abstractmethod
    def hear(self, seen: AttentionMap) -> Tensor | None:
        """What was read; the answer, if any, are the weights to use instead."""


Heard = TypeVar("Heard", bound=Listener)


@dataclass(eq=False)
class Changer(Listener):
    """Exchanges weights."""

    how: Change = field(kw_only=True)

    def hear(self, seen: AttentionMap) -> Tensor | None:
        """Whatever the caller makes of them."""
        return self.how(self.where, seen)


@dataclass(eq=False, repr=False)
class Trace(Listener, Mapping[str, tuple[AttentionMap, ...]]):
    """Module path -> the reads made there, in order. A call of `attend` outside any module of the model is under ''."""

    _maps: dict[str, list[AttentionMap]] = field(default_factory=dict)

    def __getitem__(self, path: str) -> tuple[AttentionMap, ...]:
        if path not in self._maps:
            raise KeyError(
                f"no attention was traced at {path!r}; there is {', '.join(map(repr, self._maps)) or 'none'}."
            )
        return tuple(self._maps[path])

    def __iter__(self) -> Iterator[str]:
        return iter(self._maps)

    def __len__(self) -> int:
        return len(self._maps)

    def hear(self, seen: AttentionMap) -> None:
        """Keep one read under the module that is running."""
        self._maps.setdefault(self.where, []).append(seen)

    def __repr__(self) -> str:
        told = (f"{path!r}: {len(maps)} x {tuple(maps[0].weights.shape)}" for path, maps in self._maps.items())
        return f"Trace({', '.join(told)})"


def tell(read: AttentionMap, aggregate: Callable[[Tensor], Tensor]) -> tuple[Tensor, Tensor] | None:
    """Tell everyone of a read, innermost first; the weights and the context that someone put in place of its own."""
    changed, seen = None, read.detached()
    for listener in reversed(active_recorders()):
        weights = listener.hear(seen)
        if weights is not None:
            changed = weights, aggregate(weights)
            seen = replace(seen, weights=weights.detach(), context=changed[1].detach())
    return changed


class Eagerness:
    """torch.compile stays away while anyone listens, in whatever thread: the stance is the process's own."""

    def __init__(self) -> None:
        self._lock, self._count = Lock(), 0
        self._stance: Any = None

    def __enter__(self) -> None:
        with self._lock:
            self._count += 1
            if self._count == 1:
                self._stance = torch.compiler.set_stance("force_eager")
                self._stance.__enter__()

    def __exit__(self, *_: object) -> None:
        with self._lock:
            self._count -= 1
            if not self._count:
                self._stance.__exit__(None, None, None)


EAGER = Eagerness()


@contextmanager
def trace(model: nn.Module) -> Iterator[Trace]:
    """Collect queries, keys, values, scores, weights and context of every attention `model` performs in the block."""
    with listening(model, Trace(), "trace") as maps:
        yield maps


@contextmanager
def change(model: nn.Module, how: Change) -> Iterator[None]:
    """Exchange weights while the model runs in the block: `how(path, read)` gives those to use instead, or None.

    with change(model, lambda path, read: torch.zeros_like(read.weights) if path == "decoder.attention" else None):
        model(inputs)
    """
    with listening(model, Changer(how=how), "change"):
        yield


@contextmanager
def listening(model: nn.Module, listener: Heard, name: str) -> Iterator[Heard]:
    """Hooks tell the listener where the model is, and every attention what it read."""
    model = unwrap(model)
    if not isinstance(model, nn.Module):
        raise ValueError(f"{name} takes a torch.nn.Module, not {type(model).__name__}.")
    # a compiled model wraps the original, whose module names are the ones people know
    inner: Any = getattr(model, "_orig_mod", model)
    handles = []
    for path, module in inner.named_modules():
        # another thread may run the same modules meanwhile: it is not listening
        def enter(module: nn.Module, arguments: Any, path: str = path) -> None:
            if listener in active_recorders():
                listener.enter(path)

        def leave(module: nn.Module, arguments: Any, result: Any, path: str = path) -> None:
            if listener in active_recorders():
                listener.leave(path)

        handles.append(module.register_forward_pre_hook(enter))
        handles.append(module.register_forward_hook(leave, always_call=True))
    try:
        with recording(listener), EAGER:
            yield listener
    finally:
        for handle in handles:
            handle.remove()
