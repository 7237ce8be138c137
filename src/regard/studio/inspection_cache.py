"""A cache of recent inspections with their tensors, limited in number and bytes.

Shapes: H heads, Q queries, K keys.
"""

from collections import OrderedDict
from dataclasses import dataclass, field
from functools import cached_property
from threading import Lock
from typing import Any, TypeVar

import torch
from jaxtyping import Float
from torch import Tensor

from regard.contracts import AlignmentPanel, AttentionMap, AttentionSite, Inspection
from regard.serving import MissingError, RefusedError
from regard.studio.model_registry import RegisteredModel
from regard.studio.schema.inspections import InspectionMessage
from regard.tasks import first_keys, join_weights

# 1 GiB
MAX_BYTES, MAX_INSPECTIONS = 1 << 30, 64
PanelType = TypeVar("PanelType")


@dataclass(frozen=True, kw_only=True)
class CachedInspection:
    """An inspection, its message to the page, and its model; `swapped` has the weights of a swap."""

    message: InspectionMessage
    model: RegisteredModel
    inspection: Inspection
    swapped: dict[str, Float[Tensor, "H Q K"]] = field(default_factory=dict)

    def site(self, path: str) -> AttentionSite:
        """The attention at a module path."""
        site = self.inspection.site(path)
        # the result of a swap has sites, but no maps
        if site is None or path not in self.inspection.maps:
            paths = ", ".join(self.inspection.maps) or "none"
            raise MissingError(f"{self.message.model} has no attention at {path!r}; there is {paths}.")
        return site

    def maps(self, path: str) -> tuple[AttentionMap, ...]:
        """The maps of one site, in the order of their calls."""
        self.site(path)
        return self.inspection.maps[path]

    def panel(self, panel_type: type[PanelType]) -> PanelType:
        """The panel of a type; RefusedError if the inspection has none."""
        panel: PanelType | None = self.inspection.panel(panel_type)
        if panel is None:
            name, names = getattr(panel_type, "name", panel_type.__name__), ", ".join(self.message.panels) or "none"
            raise RefusedError(
                f"this inspection of {self.message.model} has no {name} panel; there is {names}. GET /api/state lists "
                f"the models."
            )
        return panel

    def weights(self, path: str) -> Float[Tensor, "H Q K"]:
        """The weights of all heads of one site, with a column for every position of the key axis."""
        weights = self._weights_without_maps(path)
        if weights is not None:
            return weights
        return join_weights(self.maps(path), self.num_keys(path), firsts=self.first_keys(path))

    def head(self, path: str, head: int) -> Float[Tensor, "Q K"]:
        """The weights of one head of a site, or for -1 the mean of all."""
        weights = self._weights_without_maps(path)
        count = self.site(path).num_heads if weights is None else weights.shape[0]
        if head >= count:
            raise MissingError(f"{path} has {count} heads, counted from 0; there is no head {head}.")
        # -1 is the mean of all heads
        if head < 0:
            return self.weights(path).mean(dim=0)
        if weights is not None:
            return weights[head]
        # only this head is joined: a site may have many
        return join_weights(self.maps(path), self.num_keys(path), head, self.first_keys(path))[0]

    def _weights_without_maps(self, path: str) -> Float[Tensor, "H Q K"] | None:
        """The weights of a swap or of the model's alignment, which have no maps."""
        if path in self.swapped:
            return self.swapped[path]
        alignment: AlignmentPanel | None = self.inspection.panel(AlignmentPanel)
        # the alignment has one head; float32, because it may be in bfloat16
        return alignment.weights[None].float() if alignment is not None and path == alignment.name else None

    def num_keys(self, path: str) -> int:
        """The number of positions on the key axis of a site."""
        return len(self.inspection.axis(self.site(path).key_axis).labels)

    def first_keys(self, path: str) -> list[int]:
        """For each map of a site, the position of its first key."""
        self.site(path)
        return first_keys(self.inspection, path)

    # cached: the tensors of an entry do not change
    @cached_property
    def size(self) -> int:
        """Bytes of all tensors; those that share memory count once."""
        holders: list[Any] = [*self.inspection.panels]
        holders += [
            part for maps in self.inspection.maps.values() for each in maps for part in (each, each.position_info)
        ]
        tensors = [value for holder in holders for value in vars(holder).values()]
        tensors += self.swapped.values()
        # views such as single heads share the storage of their base
        storages = [tensor.untyped_storage() for tensor in tensors if isinstance(tensor, torch.Tensor)]
        return sum({storage.data_ptr(): storage.nbytes() for storage in storages}.values())


class InspectionCache:
    """The most recently used inspections."""

    def __init__(self) -> None:
        self._entries: OrderedDict[str, CachedInspection] = OrderedDict()
        # routes run in a pool of threads, inspections in the thread of the queue
        self._lock = Lock()

    def get(self, name: str) -> CachedInspection | None:
        """A cached inspection, or None."""
        with self._lock:
            if name in self._entries:
                # the most recently used one is last
                self._entries.move_to_end(name)
            return self._entries.get(name)

    def find(self, name: str) -> CachedInspection:
        """A cached inspection; MissingError if it was evicted."""
        entry = self.get(name)
        if entry is None:
            raise MissingError(f"the inspection {name!r} is no longer cached. POST /api/inspections again.")
        return entry

    def add(self, entry: CachedInspection) -> CachedInspection:
        """Cache an inspection; evict those of older weights of its model, and the oldest beyond the limits."""
        with self._lock:
            # an inspection of older weights can never be requested again
            model, version = entry.model.name, entry.model.version
            # a copy, because entries are deleted in the loop
            for name, other in list(self._entries.items()):
                if other.model.name == model and other.model.version != version:
                    del self._entries[name]
            self._entries[entry.message.id] = entry
            self._entries.move_to_end(entry.message.id)
            # the new entry stays, even if it is over the limit alone
            while len(self._entries) > 1 and self._is_over_limit():
                # the first one is the least recently used
                self._entries.popitem(last=False)
        return entry

    def _is_over_limit(self) -> bool:
        num_bytes = sum(entry.size for entry in self._entries.values())
        return len(self._entries) > MAX_INSPECTIONS or num_bytes > MAX_BYTES
