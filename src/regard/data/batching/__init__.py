"""Examples to batches."""

from regard.data.batching.collate import collate
from regard.data.batching.examples import (
    UNSEEN,
    Example,
    ExampleData,
    Examples,
    LabelledExamples,
    make_examples,
    make_labelled,
)
from regard.data.batching.order import Batching, Budget, Order, RowBudget, TokenBudget, batches_by_length, share
from regard.data.batching.segments import SegmentData, SegmentSettings

__all__ = [
    "UNSEEN",
    "Batching",
    "Budget",
    "Example",
    "ExampleData",
    "Examples",
    "LabelledExamples",
    "Order",
    "RowBudget",
    "SegmentData",
    "SegmentSettings",
    "TokenBudget",
    "batches_by_length",
    "collate",
    "make_examples",
    "make_labelled",
    "share",
]
