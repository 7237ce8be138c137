"""Tracing: every attention of ours inside any model, by module path, without the model's knowing.

    with trace(model) as maps:
        model(inputs)
    maps["encoder.layers.0.attention"][0].weights

Inside the block attention forms its weights, so fused kernels wait outside; results agree to rounding. Nothing is kept
on the modules: hooks tell where the model is, and `attend` hands what it computed to the trace that is listening.
"""

from collections.abc import Callable, Iterator
from contextlib import contextmanager
from dataclasses import dataclass, field, replace
from threading import Lock
from typing import Any

import torch
from torch import Tensor, nn

from regard.contracts import (
    AttentionMap,
    Change,
    Recorder,
    RecorderType,
    Trace,
    active_recorders,
    recording,
    unwrap,
)


@dataclass(eq=False)
class Intervention(Recorder):
    """Exchanges weights."""

    how: Change = field(kw_only=True)

    def record(self, seen: AttentionMap) -> Tensor | None:
        """Whatever the caller makes of them."""
        return self.how(self.where, seen)


def tell(read: AttentionMap, aggregate: Callable[[Tensor], Tensor]) -> tuple[Tensor, Tensor] | None:
    """Tell everyone of a read, innermost first; the weights and the context that someone put in place of its own."""
    changed, seen = None, read.detached()
    for listener in reversed(active_recorders()):
        weights = listener.record(seen)
        if weights is not None:
            changed = weights, aggregate(weights)
            seen = replace(seen, weights=weights.detach(), context=changed[1].detach())
    return changed


class ForceEager:
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


EAGER = ForceEager()


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
    with listening(model, Intervention(how=how), "change"):
        yield


@contextmanager
def listening(model: nn.Module, listener: RecorderType, name: str) -> Iterator[RecorderType]:
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
