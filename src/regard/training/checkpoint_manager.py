"""The checkpoints of a training: saving, publishing the best weights, and resuming.

Order of writing, so that kill -9 at any instant loses nothing: validated weights, then the checkpoint, then the
published model.safetensors; then what is no longer needed is removed. A checkpoint with the best weights that was not
yet published is published on resuming.
"""

import math
import shutil
from collections.abc import Mapping
from dataclasses import asdict, dataclass, field
from pathlib import Path
from typing import Any

from torch import Tensor, nn

from regard._utils import atomic_file, cut_lines
from regard.checkpoint import (
    Checkpoint,
    RunFolder,
    check_tensors,
    load_metadata,
    load_signed_json,
    load_tensors,
    load_weights,
    save_signed_json,
    save_tensors,
)
from regard.training.engine import EngineState
from regard.training.loader import Position
from regard.training.selection import BestTracker, average_tensors
from regard.training.settings import TrainingSettings, differences, fill_absent, rename_settings


@dataclass(frozen=True, kw_only=True)
class Progress:
    """Progress of a training, without tensors.

    `averaged_steps` are the steps whose validated weights are averaged at the end.
    """

    step: int = 0
    position: Position = field(default_factory=Position)
    tokens: int = 0
    seconds: float = 0.0
    best: BestTracker = field(default_factory=BestTracker)
    averaged_steps: tuple[int, ...] = ()


@dataclass(frozen=True, kw_only=True)
class CheckpointTensors:
    """The tensors of a checkpoint: weights, their running average if there is one, and the state of the engine."""

    weights: Mapping[str, Tensor]
    average: Mapping[str, Tensor] | None
    engine: EngineState


@dataclass(frozen=True)
class CheckpointManager:
    """Saves and loads the checkpoints of one training."""

    folder: Path
    settings: TrainingSettings

    @property
    def run_folder(self) -> RunFolder:
        """The paths of the run."""
        return RunFolder(self.folder)

    def find(self, *, resume: bool) -> Checkpoint | None:
        """The checkpoint to resume from, or None for a new training; without `resume` a used folder is refused."""
        checkpoint = self.run_folder.checkpoints.latest()
        if checkpoint is not None and not resume:
            # refused rather than overwritten: a run may have taken hours
            raise ValueError(
                f"{self.folder} holds a training at step {checkpoint.step}. "
                f"Resume it (resume=True, --resume on the command line), or choose another folder."
            )
        if checkpoint is None and self.run_folder.weights.exists():
            # weights without a checkpoint have no optimizer state to continue from
            raise ValueError(f"{self.folder} holds a model but no training to resume. Choose another folder.")
        if checkpoint is not None:
            self._check_settings(_load_state(checkpoint)["settings"])
        return checkpoint

    def clean(self, checkpoint: Checkpoint | None, *, validates: bool) -> None:
        """Remove what a killed run wrote after the checkpoint, and publish the weights if it was killed before that.

        A run that validates publishes its best weights, another one its last.
        """
        self.run_folder.tidy()
        # metrics are appended more often than checkpoints are saved: later records would be written twice
        cut_lines(self.run_folder.metrics, checkpoint.step if checkpoint else 0)
        if checkpoint is None:
            return
        progress = self.load_progress(checkpoint)
        # weights are written before their checkpoint: those of a step that was not saved are in no progress
        self.run_folder.checkpoints.keep_weights(list(progress.averaged_steps))
        best = progress.best.step if validates else checkpoint.step
        published = load_metadata(self.run_folder.weights).get("step") if self.run_folder.weights.exists() else None
        # an older best step is published already; only this checkpoint may have been killed before that
        if best == checkpoint.step != published:
            self.publish(checkpoint)
        # now, and not when they are loaded at the end of the training
        elif best:
            check_tensors(self.run_folder.weights)
        for step in progress.averaged_steps:
            check_tensors(self.run_folder.checkpoints.weights(step))

    def save(self, progress: Progress, tensors: CheckpointTensors) -> Checkpoint:
        """Write a checkpoint."""
        checkpoints, metadata = self.run_folder.checkpoints, {"step": progress.step}
        # filled in a scratch folder that is renamed at the end: a checkpoint exists completely or not at all
        with checkpoints.writing(progress.step) as folder:
            save_tensors(folder / "weights.safetensors", tensors.weights, metadata=metadata)
            if tensors.average is not None:
                save_tensors(folder / "running.safetensors", tensors.average, metadata=metadata)
            save_tensors(folder / "optimizer.safetensors", tensors.engine.optimizer)
            save_tensors(folder / "random.safetensors", tensors.engine.random)
            # only streams carry a state; load_engine accepts that the file is missing
            if tensors.engine.carried:
                save_tensors(folder / "carried.safetensors", tensors.engine.carried)
            state = {
                "progress": _to_plain(progress),
                "optimizer": tensors.engine.optimizer_groups,
                "settings": asdict(self.settings),
            }
            save_signed_json(folder / "state.json", state)
        # last, because an earlier checkpoint needs its weights until this one exists
        checkpoints.keep_weights(list(progress.averaged_steps))
        # the block had a scratch folder with the same name as the final one
        return Checkpoint(progress.step, checkpoints.folder / folder.name)

    def save_validated(self, step: int, weights: Mapping[str, Tensor]) -> None:
        """Write validated weights, for the average at the end."""
        save_tensors(self.run_folder.checkpoints.weights(step), weights, metadata={"step": step})

    def publish(self, checkpoint: Checkpoint) -> None:
        """Make the weights of a checkpoint model.safetensors, those of the running average if there is one."""
        average = checkpoint.folder / "running.safetensors"
        # copied and then renamed, so that no reader opens a partial file
        with atomic_file(self.run_folder.weights) as scratch_path:
            shutil.copyfile(average if average.exists() else checkpoint.folder / "weights.safetensors", scratch_path)

    def average(self, steps: tuple[int, ...]) -> dict[str, Tensor]:
        """The mean of the validated weights of these steps."""
        # a generator: the files are loaded one after another
        return average_tensors(load_tensors(self.run_folder.checkpoints.weights(step)) for step in steps)

    def load_progress(self, checkpoint: Checkpoint) -> Progress:
        """The progress at a checkpoint."""
        try:
            return _from_plain(_load_state(checkpoint)["progress"])
        except (KeyError, TypeError, AttributeError) as error:
            path = checkpoint.folder / "state.json"
            raise ValueError(f"{path} is not what training wrote ({error!r}). Restore it from a copy.") from None

    def load_engine(self, checkpoint: Checkpoint) -> EngineState:
        """The state of the optimizer, the random generators and the carried states of a stream."""
        carried = checkpoint.folder / "carried.safetensors"
        return EngineState(
            optimizer=load_tensors(checkpoint.folder / "optimizer.safetensors"),
            optimizer_groups=_load_state(checkpoint)["optimizer"],
            random=load_tensors(checkpoint.folder / "random.safetensors"),
            carried=load_tensors(carried) if carried.exists() else {},
        )

    def load_model(self, checkpoint: Checkpoint, model: nn.Module) -> None:
        """Load the weights with which training continues."""
        load_weights(checkpoint.folder / "weights.safetensors", model)

    def load_average(self, checkpoint: Checkpoint, model: nn.Module) -> None:
        """Load their running average."""
        load_weights(checkpoint.folder / "running.safetensors", model)

    def _check_settings(self, before: Mapping[str, Any]) -> None:
        # the prefix gives the paths of RENAMED_SETTINGS and MAY_CHANGE_ON_RESUME
        saved = fill_absent(rename_settings({"training": before})["training"], self.settings)
        changes = differences({"training": saved}, {"training": asdict(self.settings)})
        if changes:
            raise ValueError(
                f"{self.folder} was trained with other settings: {'; '.join(changes)}. Resume with the same settings, "
                f"or choose another folder."
            )


def finite_or_none(metrics: Mapping[str, float]) -> dict[str, float | None]:
    """Metrics with None for values that are not finite, which JSON cannot represent."""
    return {name: value if math.isfinite(value) else None for name, value in metrics.items()}


def _to_plain(progress: Progress) -> dict[str, Any]:
    # the names in state.json are those of 0.1, so that its checkpoints still resume
    best = {"step": progress.best.step, "metrics": finite_or_none(progress.best.metrics), "since": progress.best.since}
    return {
        "step": progress.step,
        "position": asdict(progress.position),
        "tokens": progress.tokens,
        "seconds": progress.seconds,
        "standing": best,
        "kept": progress.averaged_steps,
    }


def _from_plain(plain: dict[str, Any]) -> Progress:
    best = plain["standing"]
    metrics = {name: math.nan if value is None else float(value) for name, value in best["metrics"].items()}
    return Progress(
        step=plain["step"],
        position=Position(**plain["position"]),
        tokens=plain["tokens"],
        seconds=plain["seconds"],
        best=BestTracker(best["step"], metrics, best["since"]),
        averaged_steps=tuple(plain["kept"]),
    )


def _load_state(checkpoint: Checkpoint) -> dict[str, Any]:
    """The JSON part of a checkpoint, with all its parts present."""
    path = checkpoint.folder / "state.json"
    state = load_signed_json(path)
    parts = ("progress", "optimizer", "settings")
    if not isinstance(state, dict) or not all(isinstance(state.get(part), dict) for part in parts):
        raise ValueError(f"{path} is not what training wrote: it needs {', '.join(parts)}. Restore it from a copy.")
    return state
