"""Training: one loop for every model, with schedules, selection of weights, and resumption."""

from regard.training.engine import is_main_process
from regard.training.loader import TrainingData
from regard.training.objectives import (
    ClassificationObjective,
    CropObjective,
    ModelObjective,
    Objective,
    StreamObjective,
)
from regard.training.progress import TensorBoard
from regard.training.schedules import SCHEDULES
from regard.training.selection import average_tensors
from regard.training.settings import (
    AdamSettings,
    ComputeSettings,
    EverySettings,
    ScheduleSettings,
    SelectionSettings,
    SGDSettings,
    TrainingSettings,
    differences,
    rename_settings,
)
from regard.training.trainer import Diverged, Interrupted, Result, train

__all__ = [
    "SCHEDULES",
    "AdamSettings",
    "ClassificationObjective",
    "ComputeSettings",
    "CropObjective",
    "Diverged",
    "EverySettings",
    "Interrupted",
    "ModelObjective",
    "Objective",
    "Result",
    "SGDSettings",
    "ScheduleSettings",
    "SelectionSettings",
    "StreamObjective",
    "TensorBoard",
    "TrainingData",
    "TrainingSettings",
    "average_tensors",
    "differences",
    "is_main_process",
    "rename_settings",
    "train",
]
