"""Settings of a training run: frozen dataclasses that convert to JSON."""

from collections.abc import Iterator, Mapping
from dataclasses import MISSING, asdict, dataclass, field, fields, is_dataclass
from typing import Any, ClassVar, Literal, get_args

import torch

Better = Literal["lower", "higher"]
Precision = Literal["auto", "fp32", "bf16"]
DEVICE_KINDS = ("auto", "cpu", "cuda", "mps")
StepMode = Literal["auto", "eager", "graphed", "compiled"]
ReadoutBias = Literal["frequencies", "model"]

# a dot at the end includes the whole group
MAY_CHANGE_ON_RESUME = (
    "recipe",
    "data.class_names",
    "training.steps",
    "training.epochs",
    "training.every.",
    "training.compute.",
    # of the initial weights, which a resumed run does not use
    "training.readout_bias",
    "training.selection.patience",
    "training.selection.average_last",
    "validation.",
)
"""Settings that may differ when a run is resumed, because they do not change what is learned: its label, its length,
the device and the logging. All others must be equal."""

RENAMED_SETTINGS = {
    "training.compute.ahead": "training.compute.prefetch",
    "training.schedule.size": "training.schedule.hidden_size",
}
"""Old and new paths of settings that were renamed after 0.1; configs and checkpoints with the old names still load."""


@dataclass(frozen=True, kw_only=True)
class AdamSettings:
    """Adam (https://arxiv.org/abs/1412.6980) with decoupled weight decay and gradient clipping.

    Weight decay applies to matrices, not to vectors (biases, the scales of norms).
    """

    learning_rate: float = 1.0
    beta1: float = 0.9
    beta2: float = 0.98
    eps: float = 1e-9
    weight_decay: float = 0.0
    clip_norm: float | None = None

    def __post_init__(self) -> None:
        """Raise ValueError for values out of range."""
        _check_positive("learning_rate", self.learning_rate)
        if self.clip_norm is not None:
            _check_positive("clip_norm", self.clip_norm)


@dataclass(frozen=True, kw_only=True)
class SGDSettings:
    """Stochastic gradient descent with optional momentum and gradient clipping.

    The gradient is that of the mean over tokens. Papers that sum over the steps of a segment, such as Zaremba et al.
    2014, have a learning rate smaller, and a clipping norm larger, by the number of steps.
    """

    learning_rate: float = 1.0
    momentum: float = 0.0
    weight_decay: float = 0.0
    clip_norm: float | None = None

    def __post_init__(self) -> None:
        """Raise ValueError for values out of range."""
        _check_positive("learning_rate", self.learning_rate)
        if self.clip_norm is not None:
            _check_positive("clip_norm", self.clip_norm)


@dataclass(frozen=True, kw_only=True)
class ScheduleSettings:
    """Learning-rate schedule; `name` is one of SCHEDULES.

    `hidden_size` is that of the model in Noam's formula. `decay_steps` is the last step of linear and cosine (default:
    the last step of training), the distance between two halvings, and the half-life of an exponential decay.
    """

    name: str = "noam"
    warmup_steps: int = 4000
    hidden_size: int = 512
    decay_steps: int | None = None
    floor: float = 0.0

    def __post_init__(self) -> None:
        """Raise ValueError for values out of range."""
        if self.warmup_steps < 0:
            raise ValueError(f"warmup_steps is {self.warmup_steps}, expected 0 or more.")
        _check_positive("hidden_size", self.hidden_size)
        if self.floor < 0:
            raise ValueError(f"floor is {self.floor}, expected 0 or more.")
        if self.decay_steps is not None:
            _check_positive("decay_steps", self.decay_steps)


@dataclass(frozen=True, kw_only=True)
class EverySettings:
    """Intervals in steps; None means at the end of every epoch."""

    log: int = 50
    validate: int | None = None
    save: int | None = None

    def __post_init__(self) -> None:
        """Raise ValueError for values out of range."""
        for name in ("log", "validate", "save"):
            if (steps := getattr(self, name)) is not None:
                _check_positive(name, steps)


@dataclass(frozen=True, kw_only=True)
class SelectionSettings:
    """Selection of the final weights, and early stopping.

    `patience` is the number of validations without a better metric after which training stops. `average_last` averages
    the last validated weights at the end and selects the average if it is better. `ema` is the decay of a running
    average of the weights, which is validated and saved instead of the weights themselves.
    """

    metric: str = "loss"
    better: Better = "lower"
    patience: int | None = None
    average_last: int = 0
    ema: float | None = None

    def __post_init__(self) -> None:
        """Raise ValueError for values out of range."""
        _check_name("better", self.better, get_args(Better))
        if self.patience is not None:
            _check_positive("patience", self.patience, "; none never stops early")
        if self.average_last < 0:
            raise ValueError(f"average_last is {self.average_last}, expected 0 or more.")
        if self.ema is not None and not 0.0 < self.ema < 1.0:
            raise ValueError(f"ema is {self.ema}, expected a decay between 0 and 1, for example 0.999.")


@dataclass(frozen=True, kw_only=True)
class ComputeSettings:
    """How training is computed: none of these settings changes what is learned, up to rounding.

    `accumulation` splits each global batch into this many parts, computed one after the other. `precision` "auto" is
    bf16 if the GPU supports it. `step` "graphed" replays each step as one CUDA graph, on one GPU; "auto" is "graphed"
    where that is supported, else "eager"; "compiled", for the Transformer, also compiles the step, which takes minutes
    at first. `prefetch` is the number of batches that are prepared while the model computes. `fused=False` trains and
    validates with the model's own code instead of its fused implementation (`regard.fused`).
    """

    device: str = "auto"
    precision: Precision = "auto"
    step: StepMode = "auto"
    accumulation: int = 1
    prefetch: int = 4
    fused: bool = True

    def __post_init__(self) -> None:
        """Raise ValueError for values out of range."""
        _check_device(self.device)
        _check_name("precision", self.precision, get_args(Precision))
        _check_name("step", self.step, get_args(StepMode))
        _check_positive("accumulation", self.accumulation)
        _check_positive("prefetch", self.prefetch)


@dataclass(frozen=True, kw_only=True)
class TrainingSettings:
    """A training run without its model and data. It ends at `steps` or `epochs`, whichever comes first.

    `readout_bias` "frequencies" initialises the bias of the readout with the log frequencies of the training labels,
    "model" leaves the initialisation of the model's class. `own_output_ratio`, for translation, is the share of target
    inputs that are the model's own predictions (scheduled sampling); such steps are computed one after the other.
    """

    FORMER_VALUES: ClassVar[Mapping[str, str]] = {"readout_bias": "model"}
    """Values of settings that are absent in the config of an older run."""

    steps: int | None = None
    epochs: int | None = None
    seed: int = 0
    label_smoothing: float = 0.1
    readout_bias: ReadoutBias = "frequencies"
    own_output_ratio: float = 0.0
    optimizer: AdamSettings | SGDSettings = field(default_factory=AdamSettings)
    schedule: ScheduleSettings = field(default_factory=ScheduleSettings)
    every: EverySettings = field(default_factory=EverySettings)
    selection: SelectionSettings = field(default_factory=SelectionSettings)
    compute: ComputeSettings = field(default_factory=ComputeSettings)

    def __post_init__(self) -> None:
        """Raise ValueError for values out of range."""
        if self.steps is None and self.epochs is None:
            raise ValueError("a training needs an end: give steps or epochs.")
        for name in ("steps", "epochs"):
            if (count := getattr(self, name)) is not None:
                _check_positive(name, count)
        if not 0.0 <= self.own_output_ratio <= 1.0:
            raise ValueError(f"own_output_ratio is {self.own_output_ratio}, expected a share between 0 and 1.")
        _check_name("readout_bias", self.readout_bias, get_args(ReadoutBias))
        if not 0.0 <= self.label_smoothing < 1.0:
            raise ValueError(f"label_smoothing is {self.label_smoothing}, expected a value from 0 to below 1.")


def _check_positive(name: str, value: int | float, hint: str = "") -> None:
    # `not >`, because every comparison with NaN is false
    if not value > 0:
        raise ValueError(f"{name} is {value}, expected more than 0{hint}.")


def _check_device(device: str) -> None:
    """Accept "auto" and names of torch devices of a kind that training supports."""
    try:
        # torch raises RuntimeError for a name that it cannot parse
        kind = "auto" if device == "auto" else torch.device(device).type
    except RuntimeError:
        kind = ""
    if kind not in DEVICE_KINDS:
        raise ValueError(f"device is {device!r}, expected auto, {', '.join(DEVICE_KINDS[1:])}, or one such as cuda:1.")


def _check_name(name: str, value: str, choices: tuple[str, ...]) -> None:
    if value not in choices:
        raise ValueError(f"{name} is {value!r}, expected one of {', '.join(choices)}.")


def rename_settings(config: Mapping[str, Any], prefix: str = "") -> dict[str, Any]:
    """The config of a run, as JSON values, with old names of settings replaced by the current ones."""
    renamed = {}
    for name, value in config.items():
        path = f"{prefix}{name}"
        # a renamed setting stays in its group, so only the last part of its path changes
        new_name = RENAMED_SETTINGS.get(path, path).rsplit(".", maxsplit=1)[-1]
        renamed[new_name] = rename_settings(value, f"{path}.") if isinstance(value, Mapping) else value
    return renamed


def fill_absent(saved: Mapping[str, Any], settings: Any) -> dict[str, Any]:
    """Saved settings, with the former values or the defaults of those that did not exist when they were saved."""
    former, filled = getattr(settings, "FORMER_VALUES", {}), dict(saved)
    for setting in fields(settings):
        value = getattr(settings, setting.name)
        if isinstance(saved.get(setting.name), Mapping) and is_dataclass(value):
            filled[setting.name] = fill_absent(saved[setting.name], value)
        elif setting.name not in saved:
            default = setting.default if setting.default_factory is MISSING else setting.default_factory()
            default = asdict(default) if is_dataclass(default) and not isinstance(default, type) else default
            filled[setting.name] = former.get(setting.name, default)
    return filled


def differences(before: Mapping[str, Any], after: Mapping[str, Any]) -> list[str]:
    """Differences between two runs as `path: old -> new`, without the settings that may change on resume."""
    old, new = dict(_flat(before)), dict(_flat(after))
    return [
        f"{path}: {old.get(path, 'nothing')} -> {new.get(path, 'nothing')}"
        for path in {**old, **new}
        if old.get(path) != new.get(path) and not path.startswith(MAY_CHANGE_ON_RESUME)
    ]


def _flat(plain: Mapping[str, Any], prefix: str = "") -> Iterator[tuple[str, Any]]:
    """Every setting with its path."""
    for name, value in plain.items():
        if isinstance(value, Mapping):
            yield from _flat(value, f"{prefix}{name}.")
        else:
            yield f"{prefix}{name}", value
