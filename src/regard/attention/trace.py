"""Trace and intervene: record or replace the weights of every attention inside a model, by module path.

    with trace(model) as maps:
        model(inputs)
    maps["encoder.layers.0.attention"][0].weights

Inside the block attention forms its weights instead of running fused kernels; results agree to rounding. Nothing is
stored on the modules: hooks follow which module is running, and `attend` notifies the active recorders.
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
    InterventionFunction,
    Recorder,
    RecorderType,
    Trace,
    active_recorders,
    recording,
    unwrap,
)


@dataclass(eq=False)
class Intervention(Recorder):
    """Replaces weights by those that a function returns."""

    function: InterventionFunction = field(kw_only=True)

    def record(self, attention: AttentionMap) -> Tensor | None:
        """The function's weights for this attention."""
        return self.function(self.path, attention)


def notify(attention: AttentionMap, aggregate: Callable[[Tensor], Tensor]) -> tuple[Tensor, Tensor] | None:
    """Pass an attention to the active recorders, the innermost first; weights and context if one replaced them.

    A recorder receives the weights as the recorders inside it left them.
    """
    # recorders keep the maps, and attached tensors would keep the autograd graph alive
    replacement, attention = None, attention.detached()
    for recorder in reversed(active_recorders()):
        weights = recorder.record(attention)
        if weights is not None:
            # these are not detached: gradients flow through weights that a function computed
            replacement = weights, aggregate(weights)
            attention = replace(attention, weights=weights.detach(), context=replacement[1].detach())
    return replacement


class ForceEager:
    """Context in which torch.compile runs everything eagerly, since compiled code calls no recorder.

    torch's stance is one for the process, so it is set by the first thread that enters and reset by the last that
    leaves.
    """

    def __init__(self) -> None:
        self._lock, self._count = Lock(), 0
        self._stance: Any = None

    def __enter__(self) -> None:
        with self._lock:
            self._count += 1
            # nested and concurrent traces share one stance
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
    """Record queries, keys, values, scores, weights and context of every attention of `model` in the block."""
    with recording_attention(model, Trace(), "trace") as maps:
        yield maps


@contextmanager
def intervene(model: nn.Module, function: InterventionFunction) -> Iterator[None]:
    """Replace attention weights while the model runs in the block.

    `function(path, attention)` is called with the module path and the `AttentionMap` of every attention, and returns
    the weights to use, or None to keep them.

    with intervene(model, lambda path, attention: torch.zeros_like(attention.weights) if path == "decoder" else None):
        model(inputs)
    """
    with recording_attention(model, Intervention(function=function), "intervene"):
        yield


@contextmanager
def recording_attention(model: nn.Module, recorder: RecorderType, name: str) -> Iterator[RecorderType]:
    """Make the recorder active in the block, with hooks that follow which module of the model is running."""
    model = unwrap(model)
    if not isinstance(model, nn.Module):
        raise TypeError(f"{name} takes a torch.nn.Module, not {type(model).__name__}.")
    # a compiled model wraps the original, whose module paths users expect
    inner: Any = getattr(model, "_orig_mod", model)
    handles = []
    # the default argument `path=path` binds the path of this iteration; a closure would use the last one
    for path, module in inner.named_modules():
        # another thread may run the same modules without being recorded
        def enter(module: nn.Module, arguments: Any, path: str = path) -> None:
            if recorder in active_recorders():
                recorder.enter(path)

        def leave(module: nn.Module, arguments: Any, result: Any, path: str = path) -> None:
            if recorder in active_recorders():
                recorder.leave(path)

        handles.append(module.register_forward_pre_hook(enter))
        # called too if the forward pass raises, so that the recorder leaves the path
        handles.append(module.register_forward_hook(leave, always_call=True))
    try:
        # the recorder is active only while its hooks are registered
        with recording(recorder), EAGER:
            yield recorder
    finally:
        for handle in handles:
            handle.remove()
