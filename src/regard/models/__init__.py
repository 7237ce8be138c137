"""The systems, by family: one system, one file."""

from regard.models.language_modeling import LANGUAGE_MODELS
from regard.models.text_classification import SENTENCE_MODELS
from regard.models.translation import MODELS

FAMILIES = {"translation": MODELS, "language": LANGUAGE_MODELS, "sentences": SENTENCE_MODELS}
"""Every table of systems by what its systems do."""

__all__ = ["FAMILIES", "LANGUAGE_MODELS", "MODELS", "SENTENCE_MODELS"]
