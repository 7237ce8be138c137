"""Text classification: a text to one of a few classes."""

from regard.tasks.text_classification.predictor import Classification, Classifier
from regard.tasks.text_classification.run import TextClassificationRun

__all__ = [
    "Classification",
    "Classifier",
    "TextClassificationRun",
]
