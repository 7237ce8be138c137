"""The systems, by family: one system, one file."""

from regard.models.language_modeling import LANGUAGE_MODELS
from regard.models.text_classification import TEXT_CLASSIFICATION_MODELS
from regard.models.translation import MODELS

FAMILIES = {"translation": MODELS, "language": LANGUAGE_MODELS, "sentences": TEXT_CLASSIFICATION_MODELS}
"""Every table of systems by what its systems do."""

__all__ = ["FAMILIES", "LANGUAGE_MODELS", "MODELS", "TEXT_CLASSIFICATION_MODELS"]
