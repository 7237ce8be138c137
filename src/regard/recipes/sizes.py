"""A model's config with a recipe's sizes; what a recipe does not say stays as published."""

from collections.abc import Mapping
from typing import Any

from regard.contracts import check_name
from regard.models import MODELS, ModelEntry


def configure(model: str, sizes: Mapping[str, Mapping[str, Any]], models: Mapping[str, ModelEntry] = MODELS) -> Any:
    """The config of a model by its name, or the nearest name."""
    check_name(model, models, "model")
    return models[model].config(**sizes.get(model, {}))
