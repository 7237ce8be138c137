"""Examples as token ids, and their batches."""

from regard.data.batching.collate import collate
from regard.data.batching.examples import (
    IGNORED_LABEL,
    ClassificationExamples,
    Example,
    ExampleData,
    Examples,
    make_classification_examples,
    make_examples,
)
from regard.data.batching.order import Batching, BucketedOrder, Budget, RowBudget, TokenBudget, batches_by_length, share
from regard.data.batching.segments import SegmentData, SegmentSettings

__all__ = [
    "IGNORED_LABEL",
    "Batching",
    "BucketedOrder",
    "Budget",
    "ClassificationExamples",
    "Example",
    "ExampleData",
    "Examples",
    "RowBudget",
    "SegmentData",
    "SegmentSettings",
    "TokenBudget",
    "batches_by_length",
    "collate",
    "make_classification_examples",
    "make_examples",
    "share",
]
