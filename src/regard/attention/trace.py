"""Tracing: every attention of ours inside any model, by module path, without the model's knowing.

    with trace(model) as maps:
        model(inputs)
    maps["encoder.layers.0.attention"][0].weights

Inside the block attention forms its weights, so fused kernels wait outside; results agree to rounding. Nothing is kept
on the modules: hooks tell where the model is, and `attend` hands what it computed to the trace that is listening.
"""

from collections.abc import Iterator, Mapping
from contextlib import contextmanager
from contextvars import ContextVar
from dataclasses import dataclass, field
from typing import Any

import torch
from jaxtyping import Float
from torch import Tensor, nn


@dataclass(frozen=True, kw_only=True)
class AttentionMap:
    """One read: what was asked, what it was compared with, how well, how much, and what came back; detached."""

    queries: Float[Tensor, "... Q query"]
    keys: Float[Tensor, "... K key"]
    scores: Float[Tensor, "... Q K"]
    weights: Float[Tensor, "... Q K"]
    context: Float[Tensor, "... Q value"]


@dataclass(eq=False, repr=False)
class Trace(Mapping[str, tuple[AttentionMap, ...]]):
    """Module path -> the reads made there, in order. A call of `attend` outside any module of the model is under ''."""

    _maps: dict[str, list[AttentionMap]] = field(default_factory=dict)
    _where: list[str] = field(default_factory=list)

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

    def record(self, seen: AttentionMap) -> None:
        """Keep one read under the module that is running."""
        self._maps.setdefault(self._where[-1] if self._where else "", []).append(seen)

    def enter(self, path: str) -> None:
        """The module at `path` begins."""
        self._where.append(path)

    def leave(self, path: str) -> None:
        """The module at `path` ends, and whatever it left behind; one that never began is not there to end."""
        if path in self._where:
            del self._where[len(self._where) - 1 - self._where[::-1].index(path) :]

    def __repr__(self) -> str:
        told = (f"{path!r}: {len(maps)} x {tuple(maps[0].weights.shape)}" for path, maps in self._maps.items())
        return f"Trace({', '.join(told)})"


_listening: ContextVar[tuple[Trace, ...]] = ContextVar("regard_listening", default=())


def listeners() -> tuple[Trace, ...]:
    """The traces that want to hear of every read, outermost first."""
    # a compiled graph cannot be listened to; inside a trace torch.compile is told to stay away
    return () if torch.compiler.is_compiling() else _listening.get()


@contextmanager
def trace(model: nn.Module) -> Iterator[Trace]:
    """Collect queries, keys, scores, weights and context of every attention `model` performs in the block."""
    if not isinstance(model, nn.Module):
        raise ValueError(f"trace takes a torch.nn.Module, not {type(model).__name__}.")
    maps = Trace()
    # a compiled model wraps the original, whose module names are the ones people know
    inner: Any = getattr(model, "_orig_mod", model)
    handles = []
    for path, module in inner.named_modules():
        # another thread may run the same modules meanwhile: it is not listening
        def enter(module: nn.Module, arguments: Any, path: str = path) -> None:
            if maps in listeners():
                maps.enter(path)

        def leave(module: nn.Module, arguments: Any, result: Any, path: str = path) -> None:
            if maps in listeners():
                maps.leave(path)

        handles.append(module.register_forward_pre_hook(enter))
        handles.append(module.register_forward_hook(leave, always_call=True))
    token = _listening.set((*_listening.get(), maps))
    try:
        with torch.compiler.set_stance("force_eager"):
            yield maps
    finally:
        _listening.reset(token)
        for handle in handles:
            handle.remove()
