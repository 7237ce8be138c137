"""How a model is run: its mode, its device and its recorders, also through an object that holds it."""

from collections.abc import Iterator
from contextlib import contextmanager
from contextvars import ContextVar
from itertools import chain
from typing import Any

import torch
from torch import nn

_recorders: ContextVar[tuple[Any, ...]] = ContextVar("regard_recorders", default=())


def active_recorders() -> tuple[Any, ...]:
    """Open traces and interventions, outermost first; none inside a compiled graph, where nothing can be recorded."""
    return () if torch.compiler.is_compiling() else _recorders.get()


@contextmanager
def recording(recorder: object) -> Iterator[None]:
    """Within, `recorder` is the innermost of the active recorders of this context."""
    token = _recorders.set((*_recorders.get(), recorder))
    try:
        yield
    finally:
        _recorders.reset(token)


def unwrap(model: Any) -> Any:
    """The module inside an object that holds one as `.model`, such as a predictor; anything else as it is."""
    if isinstance(model, nn.Module):
        return model
    inner = getattr(model, "model", None)
    return inner if isinstance(inner, nn.Module) else model


@contextmanager
def evaluating(model: Any) -> Iterator[None]:
    """Evaluation mode without gradients; at the end, every module that was in training mode is so again."""
    module = unwrap(model)
    training = [part for part in module.modules() if part.training] if isinstance(module, nn.Module) else []
    if training:
        module.eval()
    try:
        with torch.inference_mode():
            yield
    finally:
        for part in training:
            part.training = True


def device_of(model: Any) -> torch.device:
    """Where the model's first parameter or buffer is; the CPU if it has none."""
    module = unwrap(model)
    tensors = chain(module.parameters(), module.buffers()) if isinstance(module, nn.Module) else ()
    first = next(iter(tensors), None)
    return torch.device("cpu") if first is None else first.device
