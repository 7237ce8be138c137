"""What a training writes into its checkpoint folder, and how it finds its way back.

Order of writing, so that kill -9 at any instant loses nothing: validated weights, then the point, then the published
model, then what is no longer needed goes. A point that is the best but was not yet published is published on resuming.
"""

import math
import shutil
from collections.abc import Mapping
from dataclasses import asdict, dataclass, field
from pathlib import Path
from typing import Any

from torch import Tensor, nn

from regard._utils import cut_lines, load_json, replacing, save_json
from regard.checkpoint import Checkpoint, Point, load_facts, load_tensors, load_weights, save_tensors
from regard.training.engine import EngineState
from regard.training.loader import Position
from regard.training.selection import BestTracker, average_tensors
from regard.training.settings import TrainingSettings, differences


@dataclass(frozen=True, kw_only=True)
class Progress:
    """How far a training is: all of it that is plain."""

    step: int = 0
    position: Position = field(default_factory=Position)
    tokens: int = 0
    seconds: float = 0.0
    standing: BestTracker = field(default_factory=BestTracker)
    kept: tuple[int, ...] = ()


@dataclass(frozen=True)
class CheckpointManager:
    """The files of one training."""

    folder: Path
    settings: TrainingSettings

    @property
    def checkpoint(self) -> Checkpoint:
        """The folder's layout."""
        return Checkpoint(self.folder)

    def find(self, *, resume: bool) -> Point | None:
        """Where to go on, or nothing for a start; a folder in use is refused unless it is to be resumed."""
        point = self.checkpoint.points.latest()
        if point is not None and not resume:
            raise ValueError(
                f"{self.folder} holds a training at step {point.step}. "
                f"Go on with it (resume=True, --resume on the command line), or choose another folder."
            )
        if point is None and self.checkpoint.weights.exists():
            raise ValueError(f"{self.folder} holds a model but no training to go on with. Choose another folder.")
        if point is not None:
            self._check_settings(_state_of(point)["settings"])
        return point

    def clean(self, point: Point | None, *, validates: bool) -> None:
        """Remove what a killed run left beyond the point, and publish what it had no time to.

        A run that validates publishes its best weights, one that does not its last.
        """
        self.checkpoint.tidy()
        cut_lines(self.checkpoint.metrics, point.step if point else 0)
        if point is None:
            return
        progress = self.load_progress(point)
        self.checkpoint.points.keep_weights(list(progress.kept))
        best = progress.standing.step if validates else point.step
        published = load_facts(self.checkpoint.weights).get("step") if self.checkpoint.weights.exists() else None
        if best == point.step != published:
            self.publish(point)

    def save(self, progress: Progress, tensors: "Tensors") -> Point:
        """Write a point."""
        points = self.checkpoint.points
        facts = {"step": progress.step}
        with points.writing(progress.step) as folder:
            save_tensors(folder / "weights.safetensors", tensors.weights, facts=facts)
            if tensors.running is not None:
                save_tensors(folder / "running.safetensors", tensors.running, facts=facts)
            save_tensors(folder / "optimizer.safetensors", tensors.engine.optimizer)
            save_tensors(folder / "random.safetensors", tensors.engine.random)
            if tensors.engine.carried:
                save_tensors(folder / "carried.safetensors", tensors.engine.carried)
            state = {
                "progress": _to_plain(progress),
                "optimizer": tensors.engine.facts,
                "settings": asdict(self.settings),
            }
            save_json(folder / "state.json", state)
        points.keep_weights(list(progress.kept))
        return Point(progress.step, points.folder / folder.name)

    def keep(self, step: int, weights: Mapping[str, Tensor]) -> None:
        """Write validated weights that an average may be made of."""
        save_tensors(self.checkpoint.points.weights(step), weights, facts={"step": step})

    def publish(self, point: Point) -> None:
        """Make a point's weights those of the model."""
        running = point.folder / "running.safetensors"
        with replacing(self.checkpoint.weights) as beside:
            shutil.copyfile(running if running.exists() else point.folder / "weights.safetensors", beside)

    def average(self, steps: tuple[int, ...]) -> dict[str, Tensor]:
        """The mean of the weights of these steps."""
        return average_tensors(load_tensors(self.checkpoint.points.weights(step)) for step in steps)

    def load_progress(self, point: Point) -> Progress:
        """How far the point is."""
        try:
            return _from_plain(_state_of(point)["progress"])
        except (KeyError, TypeError, AttributeError) as error:
            raise ValueError(f"{point.folder}/state.json is not what training wrote ({error!r}). Restore it.") from None

    def load_engine(self, point: Point) -> EngineState:
        """Optimizer, random generators and what is carried from segment to segment, as they were at the point."""
        carried = point.folder / "carried.safetensors"
        return EngineState(
            optimizer=load_tensors(point.folder / "optimizer.safetensors"),
            facts=_state_of(point)["optimizer"],
            random=load_tensors(point.folder / "random.safetensors"),
            carried=load_tensors(carried) if carried.exists() else {},
        )

    def load_model(self, point: Point, model: nn.Module) -> None:
        """The weights as they were when training goes on."""
        load_weights(point.folder / "weights.safetensors", model)

    def load_running(self, point: Point, model: nn.Module) -> None:
        """Their running average."""
        load_weights(point.folder / "running.safetensors", model)

    def _check_settings(self, before: dict[str, Any]) -> None:
        changes = differences({"training": before}, {"training": asdict(self.settings)})
        if changes:
            raise ValueError(
                f"{self.folder} was trained otherwise: {'; '.join(changes)}. Resume with the same settings, "
                f"or choose another folder."
            )


@dataclass(frozen=True, kw_only=True)
class Tensors:
    """What of a point is tensors: the weights, their running average where there is one, and the engine's."""

    weights: Mapping[str, Tensor]
    running: Mapping[str, Tensor] | None
    engine: EngineState


def finite_or_none(metrics: Mapping[str, float]) -> dict[str, float | None]:
    """Metrics as JSON can hold them."""
    return {name: value if math.isfinite(value) else None for name, value in metrics.items()}


def _to_plain(progress: Progress) -> dict[str, Any]:
    plain = asdict(progress)
    plain["standing"]["metrics"] = finite_or_none(progress.standing.metrics)
    return plain


def _state_of(point: Point) -> dict[str, Any]:
    """The plain part of a point, with all that belongs there."""
    path = point.folder / "state.json"
    state = load_json(path)
    parts = ("progress", "optimizer", "settings")
    if not isinstance(state, dict) or not all(isinstance(state.get(part), dict) for part in parts):
        raise ValueError(f"{path} is not what training wrote: it needs {', '.join(parts)}. Restore it from a copy.")
    return state


def _from_plain(plain: dict[str, Any]) -> Progress:
    standing = plain["standing"]
    metrics = {name: math.nan if value is None else float(value) for name, value in standing["metrics"].items()}
    return Progress(
        step=plain["step"],
        position=Position(**plain["position"]),
        tokens=plain["tokens"],
        seconds=plain["seconds"],
        standing=BestTracker(standing["step"], metrics, standing["since"]),
        kept=tuple(plain["kept"]),
    )
