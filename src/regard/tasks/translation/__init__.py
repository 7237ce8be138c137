"""Translation of a source sentence into a target sentence."""

from regard.tasks.translation.predictor import Translation, Translator, make_search, truncation_warning
from regard.tasks.translation.run import TranslationRun, ValidationSettings, VocabularySettings

__all__ = [
    "Translation",
    "TranslationRun",
    "Translator",
    "ValidationSettings",
    "VocabularySettings",
    "make_search",
    "truncation_warning",
]
