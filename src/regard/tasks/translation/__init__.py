"""Translation: a source sentence to a target sentence."""

from regard.tasks.translation.predictor import Translation, Translator, cut_off, make_search
from regard.tasks.translation.run import Run, ValidationSettings, VocabularySettings

__all__ = [
    "Run",
    "Translation",
    "Translator",
    "ValidationSettings",
    "VocabularySettings",
    "cut_off",
    "make_search",
]
