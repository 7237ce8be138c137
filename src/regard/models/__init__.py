"""Models by family; one file per model."""

from regard.models.language_modeling import LANGUAGE_MODELS
from regard.models.text_classification import TEXT_CLASSIFICATION_MODELS
from regard.models.translation import TRANSLATION_MODELS

FAMILIES = {
    "translation": TRANSLATION_MODELS,
    "language_modeling": LANGUAGE_MODELS,
    "text_classification": TEXT_CLASSIFICATION_MODELS,
}
"""The table of every family."""

__all__ = ["FAMILIES", "LANGUAGE_MODELS", "TEXT_CLASSIFICATION_MODELS", "TRANSLATION_MODELS"]
