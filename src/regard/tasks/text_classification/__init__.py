"""Text classification: a text to one of a few classes."""

from regard.tasks.text_classification.predictor import Classification, TextClassifier
from regard.tasks.text_classification.run import TextClassificationRun

__all__ = [
    "Classification",
    "TextClassificationRun",
    "TextClassifier",
]
