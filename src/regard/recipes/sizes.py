"""A model's config with a recipe's sizes; what a recipe does not say stays as published."""

from collections.abc import Mapping
from typing import Any

from regard.models import MODELS
from regard.recipes.typed import nearest


def configure(model: str, sizes: Mapping[str, Mapping[str, Any]]) -> Any:
    """The config of a model by its name, or the nearest name."""
    if model not in MODELS:
        raise ValueError(
            f"there is no model {model!r}; the nearest is {nearest(model, MODELS)!r}. Known: {', '.join(MODELS)}."
        )
    return MODELS[model].config(**sizes.get(model, {}))
