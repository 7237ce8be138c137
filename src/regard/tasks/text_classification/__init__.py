"""Text classification: a text to one of a few classes."""

from regard.tasks.text_classification.predictor import Classification, Classifier
from regard.tasks.text_classification.run import SentenceRun

__all__ = [
    "Classification",
    "Classifier",
    "SentenceRun",
]
