"""What a task makes of a run before it can be trained: whatever follows from the data."""

from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, field
from functools import cached_property
from typing import Any

from torch import nn

from regard.data import Batching, Examples, Order, share
from regard.data.labelled import LabelledExamples
from regard.training import Objective, TrainingData

Say = Callable[[str, str], None]
"""Tells what was left out of a split, if anything was."""


@dataclass(frozen=True, kw_only=True)
class Prepared:
    """A run with the sizes that its data came to, and all that its training needs.

    `files` are what stands beside the weights, by name. `validate` is called with the model as it learns. `example` is
    something that the model will not have learned from. `unit` is what has a label. A model that is counted is there
    already, after `seconds`.
    """

    run: Any
    files: Mapping[str, str]
    data: TrainingData
    validate: Callable[[Any], Mapping[str, float]]
    example: str
    objective: Callable[..., nn.Module] = field(default=Objective)
    unit: str = "tokens"
    counted: Any = None
    seconds: float = 0.0


@dataclass(frozen=True)
class ExampleData:
    """Examples as training wants them: pairs, or sentences with their classes."""

    examples: Examples | LabelledExamples
    batching: Batching

    @cached_property
    def order(self) -> Order:
        """Which rows make which batch."""
        return self.batching.order(self.examples.lengths)

    def share(self, indices: Sequence[int], part: int, of: int) -> Sequence[int]:
        """Every `of`-th row."""
        return share(indices, part, of)

    def num_tokens(self, indices: Sequence[int]) -> int:
        """How many labels these rows have."""
        return self.examples.num_tokens(indices)

    def make(self, indices: Sequence[int]) -> Any:
        """These rows as a batch."""
        return self.examples.batch(indices, packed=self.batching.packed)
