"""Attention maps, and the recorders that receive them while a model runs."""

from abc import ABC, abstractmethod
from collections.abc import Callable, Iterator, Mapping
from dataclasses import dataclass, field, replace
from typing import Any, TypeVar

from jaxtyping import Bool, Float
from torch import Tensor

from regard.contracts.attention import Alignment, PositionInfo, Score
from regard.contracts.pytree import register_pytree


@register_pytree
@dataclass(frozen=True, kw_only=True)
class AttentionMap:
    """Inputs, scores, weights and context of one attention; detached in a trace.

    The keys are as the score prepared them; `allowed` is the mask and broadcasts to the scores. With `score`, `align`
    and `position_info` the weights can be computed again, or by another alignment.
    """

    queries: Float[Tensor, "... Q query"]
    keys: Float[Tensor, "... K key"]
    values: Float[Tensor, "... K value"]
    scores: Float[Tensor, "... Q K"]
    weights: Float[Tensor, "... Q K"]
    context: Float[Tensor, "... Q output"]
    allowed: Bool[Tensor, "..."] | None
    # static: score and alignment are not tensors, so functions over pytrees leave them unchanged
    score: Score = field(metadata={"static": True})
    align: Alignment = field(metadata={"static": True})
    position_info: PositionInfo

    def detached(self) -> "AttentionMap":
        """The same tensors without their autograd graph."""
        tensors: dict[str, Any] = {
            name: value.detach() for name, value in vars(self).items() if isinstance(value, Tensor)
        }
        # positions and lengths are integers, which have no graph
        with_graph = {name: getattr(self.position_info, name) for name in ("queries", "previous_weights")}
        position_info = replace(
            self.position_info, **{name: value.detach() for name, value in with_graph.items() if value is not None}
        )
        return replace(self, position_info=position_info, **tensors)


InterventionFunction = Callable[[str, AttentionMap], Tensor | None]
"""Module path and attention map -> the weights to use instead, or None to keep those of the map."""


@dataclass(eq=False)
class Recorder(ABC):
    """Receives every attention of a model, and follows which module is running."""

    _paths: list[str] = field(default_factory=list)

    @property
    def path(self) -> str:
        """Path of the innermost module that is running; '' outside of all."""
        return self._paths[-1] if self._paths else ""

    def enter(self, path: str) -> None:
        """Record that the module at `path` begins its forward pass."""
        # a stack, since modules run inside each other
        self._paths.append(path)

    def leave(self, path: str) -> None:
        """Record that the module at `path` has returned or raised."""
        # modules inside it that raised without a hook are removed with it; without a beginning there is no end
        if path in self._paths:
            # the last occurrence, since a module may be active more than once
            del self._paths[len(self._paths) - 1 - self._paths[::-1].index(path) :]

    @abstractmethod
    def record(self, attention: AttentionMap) -> Tensor | None:
        """Receive an attention; may return weights to use instead."""


RecorderType = TypeVar("RecorderType", bound=Recorder)


@dataclass(eq=False, repr=False)
class Trace(Recorder, Mapping[str, tuple[AttentionMap, ...]]):
    """Module path -> attention maps of that module, in order of the calls. Calls outside any module are under ''."""

    _maps: dict[str, list[AttentionMap]] = field(default_factory=dict)

    def __getitem__(self, path: str) -> tuple[AttentionMap, ...]:
        if path not in self._maps:
            raise KeyError(
                f"no attention was traced at {path!r}; there is {', '.join(map(repr, self._maps)) or 'none'}."
            )
        return tuple(self._maps[path])

    # recorders are compared by identity: a Mapping would compare contents, which are tensors
    __eq__ = object.__eq__
    __hash__ = object.__hash__

    def __iter__(self) -> Iterator[str]:
        return iter(self._maps)

    def __len__(self) -> int:
        return len(self._maps)

    def record(self, attention: AttentionMap) -> None:
        """Store the attention under the path of the running module."""
        self._maps.setdefault(self.path, []).append(attention)

    def __repr__(self) -> str:
        parts = (f"{path!r}: {len(maps)} x {tuple(maps[0].weights.shape)}" for path, maps in self._maps.items())
        return f"Trace({', '.join(parts)})"
