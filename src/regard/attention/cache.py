"""Key-value caches: keys and values of earlier positions, so that self-attention computes each of them once.

`append` returns the next cache and leaves the old one unchanged, so that hypotheses may branch. Attention with a cache
equals attention without one to rounding.
"""

from dataclasses import dataclass, field, replace
from typing import Any

import torch
from jaxtyping import Float
from torch import Tensor

from regard.attention.masks.algebra import check_count
from regard.contracts import register_pytree


def concatenated(old: Tensor | None, new: Tensor) -> Tensor:
    """Old positions, then new ones."""
    return new if old is None else torch.cat([old, new], dim=-2)


def is_inference_tensor(buffer: Tensor | None) -> bool:
    """True for a tensor made under torch.inference_mode, which cannot be written to outside of it."""
    if buffer is None or torch.compiler.is_compiling():
        return False
    return buffer.is_inference() and not torch.is_inference_mode_enabled()


class FillMark:
    """How many positions of shared buffers are filled, by whichever of the caches that share them.

    All marks are equal: caches of equal shapes have the same pytree structure.
    """

    def __init__(self, length: int = 0) -> None:
        self.length = length

    def __eq__(self, other: object) -> bool:
        return isinstance(other, FillMark)

    def __hash__(self) -> int:
        # equal objects need equal hashes
        return hash(FillMark)


@dataclass(frozen=True, kw_only=True)
class PreallocatedCache:
    """Keys and values in buffers with room for more: without gradients, `append` copies the new positions only.

    Successive caches share their buffers. The mark shows how far the newest of them has filled these, so that a second
    continuation of an older cache gets buffers of its own, and neither overwrites the other.
    """

    length: int = 0
    key_buffer: Float[Tensor, "... capacity key"] | None = None
    value_buffer: Float[Tensor, "... capacity value"] | None = None
    # static: part of the pytree's structure, since it holds no tensor
    mark: FillMark = field(default_factory=FillMark, metadata={"static": True})

    @property
    def keys(self) -> Float[Tensor, "... K key"] | None:
        """The filled part of the buffer."""
        # a view: a later append writes after these positions and never into them
        return None if self.key_buffer is None else self.key_buffer[..., : self.length, :]

    @property
    def values(self) -> Float[Tensor, "... K value"] | None:
        """The filled part of the buffer."""
        return None if self.value_buffer is None else self.value_buffer[..., : self.length, :]

    @property
    def first(self) -> int:
        """Nothing is ever dropped."""
        return 0

    def filled(self, keys: Tensor, values: Tensor, capacity: int) -> dict[str, Any]:
        """Fields of the next cache, with buffers for `capacity` positions."""
        stop = self.length + keys.shape[-2]
        # autograd may still need the buffers, another continuation may have written to them, and inference tensors
        # are read-only outside inference mode
        must_copy = self.mark.length != self.length or torch.is_grad_enabled() or is_inference_tensor(self.key_buffer)
        buffers = []
        for old, new in ((self.key_buffer, keys), (self.value_buffer, values)):
            if old is None or must_copy or old.shape[-2] < capacity:
                buffer = new.new_zeros(*new.shape[:-2], capacity, new.shape[-1])
                # only the filled part is copied: the rest of the old buffer may belong to another continuation
                if old is not None and self.length:
                    buffer[..., : self.length, :] = old[..., : self.length, :]
            else:
                buffer = old
            buffer[..., self.length : stop, :] = new
            buffers.append(buffer)
        # a copy starts its own line of caches. Buffers that only grew keep the mark: an older cache then copies at its
        # next append although nothing else writes to its buffers, which costs time but is correct
        mark = FillMark() if must_copy else self.mark
        mark.length = stop
        return {"length": stop, "key_buffer": buffers[0], "value_buffer": buffers[1], "mark": mark}


@register_pytree
@dataclass(frozen=True, kw_only=True)
class GrowingCache(PreallocatedCache):
    """Keeps all positions. `GrowingCache()` is empty; continue with the cache of the result, `attended.cache`.

    Capacities are powers of two, so buffers have the same shape however a text was divided. They double when full:
    appending n positions one by one copies each about once.
    """

    def append(self, keys: Float[Tensor, "... L key"], values: Float[Tensor, "... L value"]) -> "GrowingCache":
        """The cache with more positions."""
        length = self.length + keys.shape[-2]
        # autograd saves the keys for the backward pass, so they must not be written in place; in compiled code, plain
        # concatenation avoids the shared mutable mark
        if torch.is_grad_enabled() or torch.compiler.is_compiling():
            return replace(
                self,
                length=length,
                key_buffer=concatenated(self.keys, keys),
                value_buffer=concatenated(self.values, values),
                mark=FillMark(length),
            )
        # (length - 1).bit_length() rounds up, and leaves a power of two as it is
        return replace(self, **self.filled(keys, values, max(16, 1 << (length - 1).bit_length())))


@register_pytree
@dataclass(frozen=True, kw_only=True)
class WindowCache:
    """Keeps the last `size` positions; exact if the mask allows none before them, as causal() & window(size - 1).

    If several positions are appended at once, the whole window of the first of them is kept.
    """

    size: int
    keys: Float[Tensor, "... K key"] | None = None
    values: Float[Tensor, "... K value"] | None = None
    length: int = 0

    def __post_init__(self) -> None:
        check_count("size", self.size, 1)

    @property
    def first(self) -> int:
        """Position of the oldest key in the cache."""
        # `length` counts all positions so far, the keys only those in the window
        return self.length - (0 if self.keys is None else self.keys.shape[-2])

    def append(self, keys: Float[Tensor, "... L key"], values: Float[Tensor, "... L value"]) -> "WindowCache":
        """The cache with more positions, without those that have left the window of the first new one."""
        all_keys, all_values = concatenated(self.keys, keys), concatenated(self.values, values)
        # the first of L new queries may attend to itself and size - 1 keys before it: size - 1 + L keys in all
        window = slice(max(all_keys.shape[-2] - (self.size - 1 + keys.shape[-2]), 0), None)
        return replace(
            self,
            keys=all_keys[..., window, :],
            values=all_values[..., window, :],
            length=self.length + keys.shape[-2],
        )


@register_pytree
@dataclass(frozen=True, kw_only=True)
class FixedCache(PreallocatedCache):
    """Buffers for `capacity` positions, allocated once."""

    capacity: int

    def __post_init__(self) -> None:
        check_count("capacity", self.capacity, 1)

    def append(self, keys: Float[Tensor, "... L key"], values: Float[Tensor, "... L value"]) -> "FixedCache":
        """The cache with more positions."""
        # checked before anything is written, so that a refused append leaves the buffers as they were
        stop = self.length + keys.shape[-2]
        if stop > self.capacity:
            raise ValueError(
                f"the cache has a capacity of {self.capacity} positions, but {stop} are needed. "
                f"Use FixedCache(capacity={stop}) or more, GrowingCache(), or WindowCache(size=..)."
            )
        return replace(self, **self.filled(keys, values, self.capacity))
