"""A model's config with a recipe's sizes, what it does not say staying as published; sizes for equal parameters."""

from bisect import bisect_left
from collections.abc import Callable, Mapping
from typing import Any

from regard.contracts import check_name
from regard.models import MODELS, ModelEntry


def configure(model: str, sizes: Mapping[str, Mapping[str, Any]], models: Mapping[str, ModelEntry] = MODELS) -> Any:
    """The config of a model by its name, or the nearest name."""
    check_name(model, models, "model")
    return models[model].config(**sizes.get(model, {}))


def equal_size(goal: int, parameters_at: Callable[[int], int], *, most: int = 2048) -> int:
    """The size, up to so much, at which a system that grows with it has about `goal` parameters."""
    above = 1 + bisect_left(range(1, most), goal, key=parameters_at)
    return min((max(above - 1, 1), above), key=lambda size: abs(parameters_at(size) - goal))
