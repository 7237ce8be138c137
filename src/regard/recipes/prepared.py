"""What a task makes of a run before it can be trained: whatever follows from the data."""

from collections.abc import Callable, Mapping
from dataclasses import dataclass, field
from typing import Any

from torch import nn

from regard.training import Objective, TrainingData

Say = Callable[[str, str], None]
"""Tells what was left out of a split, if anything was."""


@dataclass(frozen=True, kw_only=True)
class Prepared:
    """A run with the sizes that its data came to, and all that its training needs.

    `files` are what stands beside the weights, by name. `validate` is called with the model as it learns. `example` is
    something that the model will not have learned from. A model that is counted comes from `count`.
    """

    run: Any
    files: Mapping[str, str]
    data: TrainingData
    validate: Callable[[Any], Mapping[str, float]]
    example: str
    objective: Callable[..., nn.Module] = field(default=Objective)
    count: Callable[[], Any] | None = None
