"""Recent inspections with their tensors, bounded in number and bytes.

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

MAX_BYTES, MAX_INSPECTIONS = 1 << 30, 64
PanelType = TypeVar("PanelType")


@dataclass(frozen=True, kw_only=True)
class CachedInspection:
    """An inspection, its message to the page, and the model; `swapped` are weights computed under another rule."""

    message: InspectionMessage
    model: RegisteredModel
    inspection: Inspection
    swapped: dict[str, Float[Tensor, "H Q K"]] = field(default_factory=dict)

    def site(self, path: str) -> AttentionSite:
        """The attention at a module path."""
        site = self.inspection.site(path)
        if site is None or path not in self.inspection.maps:
            paths = ", ".join(self.inspection.maps) or "none"
            raise MissingError(f"{self.message.model} has no attention at {path!r}; there is {paths}.")
        return site

    def maps(self, path: str) -> tuple[AttentionMap, ...]:
        """The maps of one site, in order."""
        self.site(path)
        return self.inspection.maps[path]

    def panel(self, kind: type[PanelType]) -> PanelType:
        """A panel; RefusedError where the inspection has none of the kind."""
        panel: PanelType | None = self.inspection.panel(kind)
        if panel is None:
            names = ", ".join(self.message.panels) or "none"
            raise RefusedError(
                f"this inspection of {self.message.model} has no {getattr(kind, 'name', kind.__name__)} panel; there "
                f"is {names}. GET /api/state lists the models."
            )
        return panel

    def weights(self, path: str) -> Float[Tensor, "H Q K"]:
        """All heads of one site; a column for every position of the key axis."""
        formed = self._formed(path)
        if formed is not None:
            return formed
        return join_weights(self.maps(path), self.num_keys(path), firsts=self.first_keys(path))

    def head(self, path: str, head: int) -> Float[Tensor, "Q K"]:
        """One head of a site, or for -1 the mean of all."""
        formed = self._formed(path)
        count = self.site(path).num_heads if formed is None else formed.shape[0]
        if head >= count:
            raise MissingError(f"{path} has {count} heads, counted from 0; there is no head {head}.")
        if head < 0:
            return self.weights(path).mean(dim=0)
        if formed is not None:
            return formed[head]
        # one head alone: a site may have many
        return join_weights(self.maps(path), self.num_keys(path), head, self.first_keys(path))[0]

    def _formed(self, path: str) -> Float[Tensor, "H Q K"] | None:
        """Weights without maps: a swap's, or the model's own alignment."""
        if path in self.swapped:
            return self.swapped[path]
        alignment: AlignmentPanel | None = self.inspection.panel(AlignmentPanel)
        return alignment.weights[None].float() if alignment is not None and path == alignment.name else None

    def num_keys(self, path: str) -> int:
        """Positions on the key axis of a site."""
        return len(self.inspection.axis(self.site(path).key_axis).labels)

    def first_keys(self, path: str) -> list[int]:
        """For each map of a site, the position of its first key."""
        self.site(path)
        return first_keys(self.inspection, path)

    @cached_property
    def size(self) -> int:
        """Bytes of all tensors; those that share memory count once."""
        holders: list[Any] = [*self.inspection.panels]
        holders += [part for maps in self.inspection.maps.values() for one in maps for part in (one, one.look)]
        tensors = [value for holder in holders for value in vars(holder).values()]
        tensors += self.swapped.values()
        storages = [tensor.untyped_storage() for tensor in tensors if isinstance(tensor, torch.Tensor)]
        return sum({storage.data_ptr(): storage.nbytes() for storage in storages}.values())


class InspectionCache:
    """The last inspections, as many as fit."""

    def __init__(self) -> None:
        self._entries: OrderedDict[str, CachedInspection] = OrderedDict()
        self._lock = Lock()

    def get(self, name: str) -> CachedInspection | None:
        """An inspection, if it is still cached."""
        with self._lock:
            if name in self._entries:
                self._entries.move_to_end(name)
            return self._entries.get(name)

    def find(self, name: str) -> CachedInspection:
        """An inspection that is still cached."""
        entry = self.get(name)
        if entry is None:
            raise MissingError(f"the inspection {name!r} is no longer cached. POST /api/inspections makes it again.")
        return entry

    def add(self, entry: CachedInspection) -> CachedInspection:
        """Cache an inspection; those of the same model's older weights go, and the oldest where there is no room."""
        with self._lock:
            model, version = entry.model.name, entry.model.version
            for name, other in list(self._entries.items()):
                if other.model.name == model and other.model.version != version:
                    del self._entries[name]
            self._entries[entry.message.id] = entry
            self._entries.move_to_end(entry.message.id)
            while len(self._entries) > 1 and (
                len(self._entries) > MAX_INSPECTIONS or sum(one.size for one in self._entries.values()) > MAX_BYTES
            ):
                self._entries.popitem(last=False)
        return entry
