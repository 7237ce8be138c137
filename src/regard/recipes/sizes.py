"""A model's config with a recipe's sizes; what a recipe does not say stays as published."""

from collections.abc import Mapping
from typing import Any

from regard.contracts import check_name
from regard.models import MODELS


def configure(model: str, sizes: Mapping[str, Mapping[str, Any]]) -> Any:
    """The config of a model by its name, or the nearest name."""
    check_name(model, MODELS, "model")
    return MODELS[model].config(**sizes.get(model, {}))
