"""How a training ends: with a result, by an interruption, or because it diverged."""

from dataclasses import dataclass, field
from pathlib import Path


@dataclass(frozen=True, kw_only=True)
class Result:
    """What came of a training.

    `stopped` says why it ended: "steps", "epochs" or "patience". `chosen` says which weights model.safetensors holds:
    "best" by the metric, "average" of the last validated ones, or "last" where nothing was validated. `metrics` are
    their validation metrics.
    """

    folder: Path
    steps: int
    epochs: int
    tokens: int
    seconds: float
    stopped: str
    chosen: str
    chosen_step: int
    metrics: dict[str, float] = field(default_factory=dict)


class Interrupted(Exception):  # noqa: N818
    """Training was asked to stop, finished its step and saved."""

    def __init__(self, folder: Path, step: int) -> None:
        super().__init__(
            f"Training stopped after step {step} and is saved in {folder}. "
            f"Give the same command with --resume (resume=True) to go on."
        )
        self.folder = folder
        self.step = step


class Diverged(ValueError):  # noqa: N818
    """The loss or the weights are no longer numbers."""

    def __init__(self, what: str, step: int, learning_rate: float) -> None:
        super().__init__(
            f"{what} at step {step}. What was saved before is kept. Begin again with a learning rate below "
            f"{learning_rate:.3g}, a longer warm-up, clip_norm=1.0 or precision fp32."
        )
        self.step = step
