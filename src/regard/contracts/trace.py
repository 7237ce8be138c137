"""What a trace records of every attention, and who is notified of it."""

from abc import ABC, abstractmethod
from collections.abc import Callable, Iterator, Mapping
from dataclasses import dataclass, field, replace
from typing import Any, TypeVar

from jaxtyping import Bool, Float
from torch import Tensor

from regard.contracts.attention import Alignment, PositionInfo, Score


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
    align: Alignment
    position_info: PositionInfo

    def detached(self) -> "AttentionMap":
        """The same numbers, without the graph that made them."""
        made: dict[str, Any] = {name: value.detach() for name, value in vars(self).items() if isinstance(value, Tensor)}
        asked = self.position_info.queries
        position_info = replace(self.position_info, queries=None if asked is None else asked.detach())
        return replace(self, position_info=position_info, **made)


Change = Callable[[str, AttentionMap], Tensor | None]
"""From a module path and the read made there to the weights that are to be used instead; None leaves them."""


@dataclass(eq=False)
class Recorder(ABC):
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
    def record(self, seen: AttentionMap) -> Tensor | None:
        """What was read; the answer, if any, are the weights to use instead."""


RecorderType = TypeVar("RecorderType", bound=Recorder)


@dataclass(eq=False, repr=False)
class Trace(Recorder, Mapping[str, tuple[AttentionMap, ...]]):
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

    def record(self, seen: AttentionMap) -> None:
        """Keep one read under the module that is running."""
        self._maps.setdefault(self.where, []).append(seen)

    def __repr__(self) -> str:
        told = (f"{path!r}: {len(maps)} x {tuple(maps[0].weights.shape)}" for path, maps in self._maps.items())
        return f"Trace({', '.join(told)})"
