"""Points that a training can be resumed from, consistent under kill -9 at any instant.

    training/step-00000200/     complete by construction: filled beside, then renamed
    training/weights/step-...   validated weights that an average will be made of

The latest folder is the point. Older points go only after a newer one is on the disk.
"""

import re
from collections.abc import Iterator
from contextlib import contextmanager
from dataclasses import dataclass
from pathlib import Path

from regard.storage.files import creating_folder, remove_folder, tidy


@dataclass(frozen=True)
class Point:
    """A complete resumable state on the disk."""

    step: int
    folder: Path


@dataclass(frozen=True)
class Points:
    """The points in one `training` folder; one process writes, once at a time."""

    folder: Path

    def latest(self) -> Point | None:
        """The newest complete point."""
        found = self._all()
        return found[-1] if found else None

    @contextmanager
    def writing(self, step: int) -> Iterator[Path]:
        """A folder to fill; leaving the block makes it the latest point and removes the older ones."""
        with creating_folder(self.folder / _name(step)) as filled:
            yield filled
        for point in self._all()[:-1]:
            remove_folder(point.folder)

    def weights(self, step: int) -> Path:
        """Where the validated weights of a step lie."""
        return self.folder / "weights" / f"{_name(step)}.safetensors"

    def keep_weights(self, steps: list[int]) -> None:
        """Remove validated weights of other steps."""
        kept = {self.weights(step) for step in steps}
        for path in (self.folder / "weights").glob("step-*.safetensors"):
            if path not in kept:
                path.unlink()

    def tidy(self) -> None:
        """Remove what a killed process left half written."""
        tidy(self.folder)
        tidy(self.folder / "weights")
        for point in self._all()[:-1]:
            remove_folder(point.folder)

    def _all(self) -> list[Point]:
        names = ((re.fullmatch(r"step-(\d+)", path.name), path) for path in self.folder.glob("step-*"))
        points = [Point(int(match[1]), path) for match, path in names if match and path.is_dir()]
        return sorted(points, key=lambda point: point.step)


def _name(step: int) -> str:
    return f"step-{step:08d}"
