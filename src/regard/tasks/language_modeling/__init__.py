"""Language modeling: predicting and generating the continuation of a text."""

from regard.tasks.language_modeling.evaluate import likelihood, spans
from regard.tasks.language_modeling.predictor import Continuation, TextGenerator
from regard.tasks.language_modeling.run import LanguageModelingRun, LanguageValidationSettings

__all__ = [
    "Continuation",
    "LanguageModelingRun",
    "LanguageValidationSettings",
    "TextGenerator",
    "likelihood",
    "spans",
]
