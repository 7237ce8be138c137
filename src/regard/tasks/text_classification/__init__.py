"""Text classification: assigning one of a few classes to a text."""

from regard.tasks.text_classification.predictor import Classification, TextClassifier
from regard.tasks.text_classification.run import TextClassificationRun

__all__ = [
    "Classification",
    "TextClassificationRun",
    "TextClassifier",
]
