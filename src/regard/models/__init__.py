"""The systems, by family: one system, one file."""

from regard.models.language_modeling import LANGUAGE_MODELS
from regard.models.text_classification import TEXT_CLASSIFICATION_MODELS
from regard.models.translation import TRANSLATION_MODELS

FAMILIES = {"translation": TRANSLATION_MODELS, "language": LANGUAGE_MODELS, "sentences": TEXT_CLASSIFICATION_MODELS}
"""Every table of systems by what its systems do."""

__all__ = ["FAMILIES", "LANGUAGE_MODELS", "TEXT_CLASSIFICATION_MODELS", "TRANSLATION_MODELS"]
