"""Key-value caches: what self-attention has read, so that the next token need not read it again.

Each `append` gives the next cache and leaves this one as it was, so that hypotheses may branch. Cached equals uncached
to rounding for every score that has keys.
"""

from dataclasses import dataclass, field, replace
from typing import Any

import torch
from jaxtyping import Float
from torch import Tensor


def joined(old: Tensor | None, new: Tensor) -> Tensor:
    """Old keys, then new."""
    return new if old is None else torch.cat([old, new], dim=-2)


def is_inference(room: Tensor | None) -> bool:
    """Whether the room was made under torch.inference_mode, outside which it cannot be written."""
    if room is None or torch.compiler.is_compiling():
        return False
    return room.is_inference() and not torch.is_inference_mode_enabled()


@dataclass(frozen=True, kw_only=True)
class Room:
    """Keys and values in room taken ahead: without gradients, appending copies only what is new.

    Successive caches share the room. `written` says how far the newest of them filled it, so that a second continuation
    of an older cache is given room of its own and neither overwrites the other.
    """

    length: int = 0
    key_room: Float[Tensor, "... room key"] | None = None
    value_room: Float[Tensor, "... room value"] | None = None
    written: list[int] = field(default_factory=lambda: [0])

    @property
    def keys(self) -> Float[Tensor, "... K key"] | None:
        """The part that is filled."""
        return None if self.key_room is None else self.key_room[..., : self.length, :]

    @property
    def values(self) -> Float[Tensor, "... K value"] | None:
        """The part that is filled."""
        return None if self.value_room is None else self.value_room[..., : self.length, :]

    @property
    def first(self) -> int:
        """Nothing is ever dropped."""
        return 0

    def filled(self, keys: Tensor, values: Tensor, capacity: int) -> dict[str, Any]:
        """The fields of the cache after reading more positions, with room for `capacity`."""
        stop = self.length + keys.shape[-2]
        # what a gradient may still need, or another continuation wrote, must not be written over
        shared = self.written[0] != self.length or torch.is_grad_enabled() or is_inference(self.key_room)
        rooms = []
        for old, new in ((self.key_room, keys), (self.value_room, values)):
            if old is None or shared or old.shape[-2] < capacity:
                room = new.new_zeros(*new.shape[:-2], capacity, new.shape[-1])
                if old is not None and self.length:
                    room[..., : self.length, :] = old[..., : self.length, :]
            else:
                room = old
            room[..., self.length : stop, :] = new
            rooms.append(room)
        written = [0] if shared else self.written
        written[0] = stop
        return {"length": stop, "key_room": rooms[0], "value_room": rooms[1], "written": written}


@dataclass(frozen=True, kw_only=True)
class GrowingCache(Room):
    """Keeps everything; `GrowingCache()` is empty. Go on with the cache of the result: `cache = read.cache`.

    Room is a power of two, the same in whatever pieces a text was read; it doubles when it is full, so that reading n
    positions one by one copies each about once.
    """

    def append(self, keys: Float[Tensor, "... L key"], values: Float[Tensor, "... L value"]) -> "GrowingCache":
        """The cache after reading more positions."""
        needed = self.length + keys.shape[-2]
        if torch.is_grad_enabled() or torch.compiler.is_compiling():
            return replace(
                self,
                length=needed,
                key_room=joined(self.keys, keys),
                value_room=joined(self.values, values),
                written=[needed],
            )
        return replace(self, **self.filled(keys, values, max(16, 1 << (needed - 1).bit_length())))


@dataclass(frozen=True, kw_only=True)
class WindowCache:
    """Keeps the last `size` positions; exact where the mask looks no further back, as causal() & window(size - 1) does.

    While several positions are read at once, the first of them still sees its whole window.
    """

    size: int
    keys: Float[Tensor, "... K key"] | None = None
    values: Float[Tensor, "... K value"] | None = None
    length: int = 0

    def __post_init__(self) -> None:
        if self.size < 1:
            raise ValueError(f"size is {self.size}, expected 1 position or more.")

    @property
    def first(self) -> int:
        """The oldest position held."""
        return self.length - (0 if self.keys is None else self.keys.shape[-2])

    def append(self, keys: Float[Tensor, "... L key"], values: Float[Tensor, "... L value"]) -> "WindowCache":
        """The cache after reading more positions; those no window reaches any more are gone."""
        grown, read = joined(self.keys, keys), joined(self.values, values)
        kept = slice(max(grown.shape[-2] - (self.size - 1 + keys.shape[-2]), 0), None)
        return replace(
            self,
            keys=grown[..., kept, :],
            values=read[..., kept, :],
            length=self.length + keys.shape[-2],
        )


@dataclass(frozen=True, kw_only=True)
class FixedCache(Room):
    """Room for `capacity` positions, taken once."""

    capacity: int

    def __post_init__(self) -> None:
        if self.capacity < 1:
            raise ValueError(f"capacity is {self.capacity}, expected 1 position or more.")

    def append(self, keys: Float[Tensor, "... L key"], values: Float[Tensor, "... L value"]) -> "FixedCache":
        """The cache after reading more positions."""
        stop = self.length + keys.shape[-2]
        if stop > self.capacity:
            raise ValueError(
                f"the cache has room for {self.capacity} positions, but {stop} would be read. "
                f"Use FixedCache(capacity={stop}) or more, GrowingCache(), or WindowCache(size=..)."
            )
        return replace(self, **self.filled(keys, values, self.capacity))
