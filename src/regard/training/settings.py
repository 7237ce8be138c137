"""Everything that decides how a model is trained: frozen, and plain enough for JSON."""

from collections.abc import Iterator, Mapping
from dataclasses import dataclass, field
from typing import Any, Literal, get_args

import torch

Better = Literal["lower", "higher"]
Precision = Literal["auto", "fp32", "bf16"]
DEVICE_KINDS = ("auto", "cpu", "cuda", "mps")
StepKind = Literal["auto", "eager", "graphed", "compiled"]

MAY_CHANGE_ON_RESUME = (
    "recipe",
    "training.steps",
    "training.epochs",
    "training.every.",
    "training.compute.",
    "training.selection.patience",
    "training.selection.average_last",
    "validation.",
)
"""Settings of a run that may differ when it is resumed: its label, how long, where and what is shown, not what is
learned. All others must be the same."""


@dataclass(frozen=True, kw_only=True)
class AdamSettings:
    """Adam (https://arxiv.org/abs/1412.6980) with decoupled weight decay and a bound on the gradient's norm.

    Matrices decay; vectors (biases, the scales of norms) do not.
    """

    learning_rate: float = 1.0
    beta1: float = 0.9
    beta2: float = 0.98
    eps: float = 1e-9
    weight_decay: float = 0.0
    clip_norm: float | None = None

    def __post_init__(self) -> None:
        """Refuse what no run can mean."""
        _check_positive("learning_rate", self.learning_rate)
        if self.clip_norm is not None:
            _check_positive("clip_norm", self.clip_norm)


@dataclass(frozen=True, kw_only=True)
class SGDSettings:
    """Stochastic gradient descent, with momentum where given, and a bound on the gradient's norm.

    The gradient is that of the mean over tokens: papers that sum over the steps of a segment, as Zaremba et al. 2014,
    have a learning rate (and a bound) smaller (larger) by that number of steps.
    """

    learning_rate: float = 1.0
    momentum: float = 0.0
    weight_decay: float = 0.0
    clip_norm: float | None = None

    def __post_init__(self) -> None:
        """Refuse what no run can mean."""
        _check_positive("learning_rate", self.learning_rate)
        if self.clip_norm is not None:
            _check_positive("clip_norm", self.clip_norm)


@dataclass(frozen=True, kw_only=True)
class ScheduleSettings:
    """How the learning rate goes with the step; `name` is one of SCHEDULES, which say what they read.

    `size` is the model's hidden size in Noam's formula. `decay_steps` is where linear and cosine end (left out: at the
    last step of training), how far apart the halvings are, and after how many steps an exponential decay is at a half.
    """

    name: str = "noam"
    warmup_steps: int = 4000
    size: int = 512
    decay_steps: int | None = None
    floor: float = 0.0

    def __post_init__(self) -> None:
        """Refuse what no run can mean."""
        if self.warmup_steps < 0:
            raise ValueError(f"warmup_steps is {self.warmup_steps}, expected 0 or more.")
        _check_positive("size", self.size)
        if self.floor < 0:
            raise ValueError(f"floor is {self.floor}, expected 0 or more.")
        if self.decay_steps is not None:
            _check_positive("decay_steps", self.decay_steps)


@dataclass(frozen=True, kw_only=True)
class EverySettings:
    """After how many steps something is done; None is once at the end of every epoch."""

    log: int = 50
    validate: int | None = None
    save: int | None = None

    def __post_init__(self) -> None:
        """Refuse what no run can mean."""
        for name in ("log", "validate", "save"):
            if (steps := getattr(self, name)) is not None:
                _check_positive(name, steps)


@dataclass(frozen=True, kw_only=True)
class SelectionSettings:
    """Which weights are kept, and when to stop waiting for better ones.

    `patience` counts validations without a better metric. `average_last` averages the last validated weights at the
    end and keeps them if they are better. `ema` is the decay of a running average that is validated and kept instead of
    the weights themselves.
    """

    metric: str = "loss"
    better: Better = "lower"
    patience: int | None = None
    average_last: int = 0
    ema: float | None = None

    def __post_init__(self) -> None:
        """Refuse what no run can mean."""
        _check_name("better", self.better, get_args(Better))
        if self.patience is not None:
            _check_positive("patience", self.patience, "; none waits for ever")
        if self.average_last < 0:
            raise ValueError(f"average_last is {self.average_last}, expected 0 or more.")
        if self.ema is not None and not 0.0 < self.ema < 1.0:
            raise ValueError(f"ema is {self.ema}, expected a decay between 0 and 1, for example 0.999.")


@dataclass(frozen=True, kw_only=True)
class ComputeSettings:
    """How the same numbers are computed: none of these changes what is learned, but for rounding.

    `accumulation` splits each global batch into so many parts that follow each other. `precision` "auto" is bf16 where
    the GPU has it. `step` "graphed" replays each step as one CUDA graph, on one GPU; "auto" is that where it is
    supported, and "eager" elsewhere; "compiled", for the Transformer, compiles what the graphs replay, which takes
    minutes at first. `ahead` is how many batches are prepared while the model computes.
    """

    device: str = "auto"
    precision: Precision = "auto"
    step: StepKind = "auto"
    accumulation: int = 1
    ahead: int = 4

    def __post_init__(self) -> None:
        """Refuse what no run can mean."""
        _check_device(self.device)
        _check_name("precision", self.precision, get_args(Precision))
        _check_name("step", self.step, get_args(StepKind))
        _check_positive("accumulation", self.accumulation)
        _check_positive("ahead", self.ahead)


@dataclass(frozen=True, kw_only=True)
class TrainingSettings:
    """A training run, but for its model and data. It ends at `steps` or `epochs`, whichever comes first."""

    steps: int | None = None
    epochs: int | None = None
    seed: int = 0
    label_smoothing: float = 0.1
    optimizer: AdamSettings | SGDSettings = field(default_factory=AdamSettings)
    schedule: ScheduleSettings = field(default_factory=ScheduleSettings)
    every: EverySettings = field(default_factory=EverySettings)
    selection: SelectionSettings = field(default_factory=SelectionSettings)
    compute: ComputeSettings = field(default_factory=ComputeSettings)

    def __post_init__(self) -> None:
        """Refuse what no run can mean."""
        if self.steps is None and self.epochs is None:
            raise ValueError("a training needs an end: give steps or epochs.")
        for name in ("steps", "epochs"):
            if (count := getattr(self, name)) is not None:
                _check_positive(name, count)
        if not 0.0 <= self.label_smoothing < 1.0:
            raise ValueError(f"label_smoothing is {self.label_smoothing}, expected a share from 0 to below 1.")


def _check_positive(name: str, value: int | float, hint: str = "") -> None:
    if not value > 0:
        raise ValueError(f"{name} is {value}, expected more than 0{hint}.")


def _check_device(device: str) -> None:
    """Accept "auto" and names of torch devices of a kind that training supports."""
    try:
        kind = "auto" if device == "auto" else torch.device(device).type
    except RuntimeError:
        kind = ""
    if kind not in DEVICE_KINDS:
        raise ValueError(f"device is {device!r}, expected auto, {', '.join(DEVICE_KINDS[1:])}, or one such as cuda:1.")


def _check_name(name: str, value: str, known: tuple[str, ...]) -> None:
    if value not in known:
        raise ValueError(f"{name} is {value!r}, expected one of {', '.join(known)}.")


def differences(before: Mapping[str, Any], after: Mapping[str, Any]) -> list[str]:
    """What differs between two runs in plain form, as `path: old -> new`, but for what may change on resume."""
    old, new = dict(_flat(before)), dict(_flat(after))
    return [
        f"{path}: {old.get(path, 'nothing')} -> {new.get(path, 'nothing')}"
        for path in {**old, **new}
        if old.get(path) != new.get(path) and not path.startswith(MAY_CHANGE_ON_RESUME)
    ]


def _flat(plain: Mapping[str, Any], prefix: str = "") -> Iterator[tuple[str, Any]]:
    """Every setting by its path."""
    for name, value in plain.items():
        if isinstance(value, Mapping):
            yield from _flat(value, f"{prefix}{name}.")
        else:
            yield f"{prefix}{name}", value
