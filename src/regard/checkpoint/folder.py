"""A run's folder: where every file is, and the checkpoints from which training resumes.

Points that a training can be resumed from, consistent under kill -9 at any instant.

    training/step-00000200/     complete by construction: filled beside, then renamed
    training/weights/step-...   validated weights that an average will be made of

The latest folder is the point. Older points go only after a newer one is on the disk.

A checkpoint folder: where everything lies, with errors that say what is missing.

    config.json  model.safetensors  tokenizer.json [tokenizer.target.json]  README.md  evaluation-<split>.json
    metrics.jsonl  training/ (what a resumed run needs)

It knows no model class: whoever knows one builds it from the config and asks for the weights.
"""

import re
from collections.abc import Iterator
from contextlib import contextmanager
from dataclasses import dataclass
from pathlib import Path
from typing import Any

from torch import nn

from regard._utils import creating_folder, load_json, remove_folder, save_json, tidy
from regard.checkpoint.tensors import load_weights


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


@dataclass(frozen=True)
class Checkpoint:
    """The files of one trained model."""

    folder: Path

    @classmethod
    def open(cls, folder: Path) -> "Checkpoint":
        """A folder that holds a model with its config."""
        if not folder.is_dir():
            raise FileNotFoundError(f"{folder} is not a folder. Name the folder that training wrote.")
        checkpoint = cls(folder)
        for path in (checkpoint.config, checkpoint.weights):
            if not path.is_file():
                raise FileNotFoundError(
                    f"{folder} has no {path.name}, so it is no finished checkpoint. Name the folder that training "
                    f"wrote, or let the training go on until its first save."
                )
        return checkpoint

    @property
    def config(self) -> Path:
        """What the model is, for whoever builds it."""
        return self.folder / "config.json"

    @property
    def weights(self) -> Path:
        """The best weights so far, or those that training chose at its end."""
        return self.folder / "model.safetensors"

    @property
    def tokenizer(self) -> Path:
        """The tokenizer of the source, or of both sides."""
        return self.folder / "tokenizer.json"

    @property
    def target_tokenizer(self) -> Path:
        """The tokenizer of the target, where it has its own."""
        return self.folder / "tokenizer.target.json"

    @property
    def card(self) -> Path:
        """The model card."""
        return self.folder / "README.md"

    @property
    def metrics(self) -> Path:
        """One JSON object a line, as training went."""
        return self.folder / "metrics.jsonl"

    @property
    def points(self) -> Points:
        """What a training resumes from."""
        return Points(self.folder / "training")

    def evaluation(self, split: str) -> Path:
        """The evaluation of a split."""
        return self.folder / f"evaluation-{split}.json"

    def save_config(self, config: dict[str, Any]) -> None:
        """Write the config."""
        save_json(self.config, config)

    def load_config(self) -> dict[str, Any]:
        """Read the config."""
        config = load_json(self.config)
        if not isinstance(config, dict):
            raise ValueError(f"{self.config} holds a {type(config).__name__}, expected an object of settings.")
        return config

    def load_weights(self, model: nn.Module) -> None:
        """Read the weights into a model built from the config."""
        load_weights(self.weights, model)

    def tidy(self) -> None:
        """Remove what a killed training left half written; files of others stay."""
        tidy(self.folder, (path.name for path in (self.config, self.weights, self.card, self.metrics)))
        self.points.tidy()
