"""Language modeling: what follows a text."""

from regard.tasks.language_modeling.evaluate import likelihood, spans
from regard.tasks.language_modeling.predictor import Continuation, Writer
from regard.tasks.language_modeling.run import LanguageRun, LanguageValidation

__all__ = [
    "Continuation",
    "LanguageRun",
    "LanguageValidation",
    "Writer",
    "likelihood",
    "spans",
]
